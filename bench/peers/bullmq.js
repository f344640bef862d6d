// node bullmq.js CALL: what bullmq.py asks of BullMQ; the arguments as JSON on stdin, the answer as JSON on stdout.
"use strict";
const { Queue, Worker } = require("bullmq");

function at(port) {
    return { host: "127.0.0.1", port, maxRetriesPerRequest: null };
}

function percentile(sorted, share) {
    return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] * 100) / 100;
}

// As closed_loop.py: the first tenth of the time does not count.
async function publish(queue, { callers, seconds, filler }) {
    const times = [];
    const countsFrom = performance.now() + seconds * 100;
    const ends = countsFrom + seconds * 1000;
    async function call() {
        for (let began = performance.now(); began < ends; began = performance.now()) {
            await queue.add("bench", { n: 0, due: 0, x: filler }, { removeOnComplete: true });
            const ended = performance.now();
            if (ended >= countsFrom && ended < ends) times.push(ended - began);
        }
    }
    await Promise.all(Array.from({ length: callers }, call));
    times.sort((a, b) => a - b);
    return {
        per_s: Math.round(times.length / seconds),
        p50_ms: percentile(times, 0.5),
        p99_ms: percentile(times, 0.99),
    };
}

async function schedule(queue, { dues, page, filler }) {
    const began = performance.now();
    for (let start = 0; start < dues.length; start += page) {
        const jobs = dues.slice(start, start + page).map((due, number) => ({
            name: "bench",
            data: { n: start + number, due, x: filler },
            opts: { delay: due ? Math.max(0, due - Date.now()) : 0, removeOnComplete: true },
        }));
        await queue.addBulk(jobs);
    }
    return (performance.now() - began) / 1000;
}

async function consume(queue, { port, total, patience, consumers }) {
    const arrivals = [];
    let over;
    const done = new Promise((resolve) => (over = resolve));
    const timer = setTimeout(over, patience * 1000);
    let completed = 0;
    const worker = new Worker(
        queue.name,
        async (job) => {
            const now = performance.timeOrigin + performance.now();
            arrivals.push([job.data.n, job.data.due, Math.round(now * 1e6)]);
        },
        { connection: at(port), concurrency: consumers },
    );
    worker.on("error", () => {});
    worker.on("completed", () => ++completed >= total && over());
    await done;
    clearTimeout(timer);
    await worker.close();
    return arrivals;
}

async function main() {
    const call = process.argv[2];
    if (call === "version") return require("bullmq/package.json").version;
    let text = "";
    for await (const part of process.stdin) text += part;
    const wish = JSON.parse(text);
    const queue = new Queue(wish.queue, { connection: at(wish.port) });
    const calls = { publish, schedule, consume, pending: () => queue.getDelayedCount() };
    const answer = await calls[call](queue, wish);
    await queue.close();
    return answer;
}

main().then(
    (answer) => process.stdout.write(JSON.stringify(answer)),
    (error) => {
        process.stderr.write(String(error && error.stack));
        process.exit(1);
    },
);
