"""The receiver of webhooks: owns an nginx that answers everything with 204, so that it does not limit the relay."""
import shutil
import socket

from rig.sockets import free_port
from rig.waiting import RigError, wait_until

READY_S = 10
CONFIG = """daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log {directory}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {directory}/nginx-body;
    proxy_temp_path {directory}/nginx-proxy;
    fastcgi_temp_path {directory}/nginx-fastcgi;
    uwsgi_temp_path {directory}/nginx-uwsgi;
    scgi_temp_path {directory}/nginx-scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ return 204; }} }}
}}
"""


def program():
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


class Receiver:
    def __init__(self, rig):
        self.rig = rig
        self.port = free_port()
        self.child = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    async def start(self):
        if not program():
            raise RigError("there is no nginx program: run demo/deps bench")
        path = f"{self.rig.directory}/nginx.conf"
        with open(path, "w") as file:
            file.write(CONFIG.format(directory=self.rig.directory, port=self.port))
        self.child = self.rig.child("nginx")
        await self.child.launch([program(), "-c", path, "-p", self.rig.directory])
        await wait_until(self.is_open, READY_S, f"nginx listens (see {self.child.log_path})")

    def is_open(self):
        if self.child.is_over:
            raise RigError(f"nginx ended with status {self.child.process.returncode}: see {self.child.log_path}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
