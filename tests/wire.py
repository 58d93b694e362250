"""A network that is cut."""

import contextlib
import socket
import threading


class Wire:
    """A way to a server on loopback that is cut after so many bytes.

    `reset` closes all connections and refuses new ones; `silent` keeps them open and moves nothing.
    """

    def __init__(self, port, how="reset", after=None):
        self.port, self.how, self.left = port, how, after
        self.cut = False
        self.lock, self.sockets = threading.Lock(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.port))
                with self.lock:
                    self.sockets += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not self._may(len(data)):
                    return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _may(self, count):
        with self.lock:
            if self.left is not None and not self.cut:
                self.left -= count
                self.cut = self.left < 0
                if self.cut and self.how == "reset":
                    self._close()
            return not self.cut

    def _close(self):
        self.listener.close()
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self):
        with self.lock:
            self._close()
