#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of llm-stat that run.sh cannot make.

    stat.py prometheus PORT MESSAGES       the page has Prometheus' format, and no client keeps others from getting it
    stat.py terminal LLM_STAT DIRECTORY    the view follows the window's size, and restores the terminal however it ends
    stat.py limited LLM_STAT DIRECTORY     the view names the bottlenecks of a receiver and its transmitter
    stat.py latencies LLM_STAT DIRECTORY   the view has the percentiles of the latency monitor
"""
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import sys
import termios
import time

LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)(\{{{LABEL}(?:,{LABEL})*\}})? (-?[0-9.eE+]+|\+Inf|NaN)$")
PATIENCE = 10


def check(condition, text):
    if not condition:
        sys.exit(text)


# ------------------------------------------------------------------------------------------------------ prometheus


def ask(port, request):
    """Returns head and body of the answer."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(request)
        answer = b""
        while True:
            more = connection.recv(65536)
            if not more:
                break
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode(), body.decode()


def check_page(body):
    """Returns the samples by name and labels."""
    families, samples, current = {}, {}, None
    check(body.endswith("\n"), "the page does not end in a newline")
    for line in body.splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            check(current not in families, f"{current} comes twice")
            families[current] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            check(name == current and families[name] is None, f"TYPE of {name} is not behind its HELP")
            families[name] = kind
        else:
            match = SAMPLE.match(line)
            check(match, f"not a sample: {line}")
            name = match.group(1)
            if families[current] == "histogram":
                name = re.sub(r"_(bucket|sum|count)$", "", name)
            check(name == current, f"{name} among the samples of {current}")
            check((families[current] == "counter") == name.endswith("_total"), f"{name} is a {families[current]}")
            check(match.group(1, 2) not in samples, f"twice: {line}")
            samples[match.group(1, 2)] = float(match.group(3))
    return samples


def prometheus(port, messages):
    port, messages = int(port), int(messages)
    # Some clients send nothing, and one reads nothing.
    idle = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(10)]
    deaf = socket.create_connection(("127.0.0.1", port), PATIENCE)
    deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    head, body = ask(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    check(head.startswith("HTTP/1.1 200 ") and "text/plain; version=0.0.4" in head, head)
    check(f"Content-Length: {len(body)}" in head, "the length is wrong")
    samples = check_page(body)
    sent = [value for (name, _), value in samples.items() if name == "llm_transmitter_messages_sent_total"]
    check(sent == [messages], f"messages sent: {sent}, not {messages}")
    up = [value for (name, _), value in samples.items() if name == "llm_up"]
    check(up == [1, 1], f"up: {up}")
    for request, status in ((b"GET /other HTTP/1.1\r\n\r\n", "404"), (b"POST / HTTP/1.1\r\n\r\n", "405"), (b"\r\n\r\n", "400"),
                            (b"GET /" + b"x" * 9000, "431"), (b"HEAD / HTTP/1.0\n\n", "200")):
        head, body = ask(port, request)
        check(f" {status} " in head, f"{request[:20]} was answered with {head[:40]}")
    check(body == "", "a body in the answer to HEAD")
    # More clients than there are places: the newest one is served all the same.
    idle += [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(60)]
    head, _ = ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    check(" 200 " in head, "a client is not served while others are silent")


# -------------------------------------------------------------------------------------------------------- terminal


class Terminal:
    """llm-stat in a terminal of its own."""

    def __init__(self, program, directory, rows, columns):
        self.shell, self.tty = pty.openpty()
        self.before = termios.tcgetattr(self.tty)
        self.text = b""
        self.size(rows, columns)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.tty, termios.TIOCSCTTY, 0)
            for descriptor in range(3):
                os.dup2(self.tty, descriptor)
            os.environ["TERM"] = "xterm"
            os.execv(program, [program, "--interval", "0.1", directory])

    def size(self, rows, columns):
        fcntl.ioctl(self.tty, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def frame_with(self, pattern):
        """Returns the first complete frame from now on that matches the pattern."""
        self.text = b""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if select.select([self.shell], [], [], 0.1)[0]:
                self.text += os.read(self.shell, 65536)
            for frame in self.text.split(b"\033[H")[1:-1]:
                frame = re.sub(rb"\033\[[0-9;?]*[a-zA-Z]", b"", frame).replace(b"\r\r", b"\r")
                if re.search(pattern, frame):
                    return frame.decode()
        sys.exit(f"no frame has {pattern}, the last is {self.text[-500:]}")

    def ended(self):
        """Returns the exit status, once all output was read."""
        until = time.monotonic() + PATIENCE
        status = None
        while time.monotonic() < until and status is None:
            if select.select([self.shell], [], [], 0.05)[0]:
                self.text += os.read(self.shell, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            status = status if pid else None
        while select.select([self.shell], [], [], 0.05)[0]:
            self.text += os.read(self.shell, 65536)
        check(status is not None, "it does not end")
        check(self.text.endswith(b"\033[?25h\033[?1049l"), "the cursor and the screen are not restored")
        check(termios.tcgetattr(self.tty) == self.before, "the settings of the terminal are not restored")
        return status


def terminal(program, directory):
    view = Terminal(program, directory, 30, 120)
    frame = view.frame_with(rb"transmitter .*\r\n.*msg/s")
    lines = frame.split("\r\n")
    check(len(lines) <= 30 and max(map(len, lines)) <= 120, "the view is larger than the window")
    check("2 alive, 0 dead" in lines[0] and "e2e_flood_send" in frame and "receiver " in frame, f"this is no view: {frame}")
    check(not termios.tcgetattr(view.tty)[3] & termios.ECHO, "typed characters are echoed")
    # A smaller window shows a part of the view, and keys move it.
    view.size(6, 40)
    os.kill(view.pid, signal.SIGWINCH)
    frame = view.frame_with(rb"^[^\n]{0,40}\r\n([^\n]{0,40}\r\n){4}[^\n]{0,40}$")
    second = frame.split("\r\n")[1]
    os.write(view.shell, b"j")
    moved = view.frame_with(rb"^(?!.*" + re.escape(second.encode()[:20]) + rb")[^\n]{0,40}\r\n")
    check(moved.split("\r\n")[0][:8] == "llm-stat", "the title moves")
    os.write(view.shell, b"q")
    check(view.ended() == 0, "q does not end it well")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV):
        view = Terminal(program, directory, 30, 120)
        view.frame_with(rb"msg/s")
        os.kill(view.pid, number)
        check(os.WTERMSIG(view.ended()) == number, f"it does not end by signal {number}")


def limited(program, directory):
    """On a busy machine the limits may change from one interval to the next: a single frame with all of them suffices."""
    view = Terminal(program, directory, 60, 160)
    view.frame_with(rb"(?s)receiver udp[^\r]*\r\n[^\r]*\r\n +limited by the application, which is slow to poll: away for .*"
                    rb"limited by its receivers.*[0-9a-f]{16} [^\r]* limited by the application")
    os.write(view.shell, b"q")
    check(view.ended() == 0, "q does not end it well")


def latencies(program, directory):
    view = Terminal(program, directory, 60, 160)
    for name in (rb"submit_wire_ns", rb"wire_deliver_ns"):
        view.frame_with(name + rb" +p50 [0-9.]+ [num]?s +p99 [0-9.]+ [num]?s +p99.9 [0-9.]+ [num]?s ")
    os.write(view.shell, b"q")
    check(view.ended() == 0, "q does not end it well")


if __name__ == "__main__":
    {"prometheus": prometheus, "terminal": terminal, "limited": limited, "latencies": latencies}[sys.argv[1]](*sys.argv[2:])
