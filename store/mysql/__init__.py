"""The store on MySQL 8+ and MariaDB 10.6+, over trio-mysql."""
