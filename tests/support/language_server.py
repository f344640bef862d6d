"""A client for pyright's language server that asks as an editor does: JSON-RPC over pipes."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class LanguageServer:
    """Serves one folder until the end of the `with`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # -P: the root is on no path, see CONTRIBUTING.md.
        command = [sys.executable, "-P", "-m", "pyright.langserver", "--stdio"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=root)
        self._asked = 0

    def __enter__(self) -> Self:
        uri = self._root.as_uri()
        able = {"workspace": {"configuration": True, "workspaceFolders": True}}
        folders = [{"uri": uri, "name": self._root.name}]
        self._ask("initialize", {"processId": None, "rootUri": uri, "workspaceFolders": folders, "capabilities": able})
        self._send({"method": "initialized", "params": {}})
        # Before it has its list of files, it would answer from the open files only.
        message = self._take()
        while "source file" not in message.get("params", {}).get("message", ""):
            message = self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._process:
            self._process.kill()

    def references(self, path: str, text: str) -> Counter[str]:
        """How often the name that `text` ends with is used, by file; asked for at the first `text` of the file."""
        file = self._root / path
        written = file.read_text()
        at = written.index(text) + len(text) - 1
        before = written[:at].split("\n")
        uri = file.as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": written}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        found = self._ask(
            "textDocument/references",
            {
                "textDocument": {"uri": uri},
                "position": {"line": len(before) - 1, "character": len(before[-1])},
                "context": {"includeDeclaration": True},
            },
        )
        return Counter(place["uri"].removeprefix(self._root.as_uri() + "/") for place in found or ())

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._asked += 1
        asked = self._asked
        self._send({"id": asked, "method": method, "params": params})
        message = self._take()
        while message.get("id") != asked:
            message = self._take()
        return message["result"]

    def _take(self) -> dict[str, Any]:
        """The next notification or answer; answers requests of the server meanwhile."""
        while True:
            message = self._receive()
            if "method" not in message or "id" not in message:
                return message
            self._send({"id": message["id"], "result": self._answer(message)})

    def _answer(self, message: dict[str, Any]) -> Any:
        """The answer to a request of the server: the editor's settings, of which only the interpreter is set."""
        if message["method"] != "workspace/configuration":
            return None
        ours = {"python": {"pythonPath": sys.executable}}
        return [ours.get(item.get("section"), {}) for item in message["params"]["items"]]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        out = self._process.stdout
        assert out is not None
        length = 0
        while line := out.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the language server has ended"
        message: dict[str, Any] = json.loads(out.read(length))
        return message
