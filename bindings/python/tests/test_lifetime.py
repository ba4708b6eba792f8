# SPDX-License-Identifier: Apache-2.0
"""Bad days: objects closed in any order, threads, forks, the end of the interpreter, and other versions of the library."""
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest

import libllm
from conftest import EXTENT, LIMIT, SOURCE, channel, until

OPEN = f"""
import libllm
context = libllm.Context(huge_pages=False, wait=libllm.WaitMode.BLOCK)
got = []
receiver = context.receiver({channel("child")!r}, message=got.append)
topic = context.transmitter({channel("child")!r}).topic("t")
topic.put(b"x")
context.wait(1)
"""


def program(text, status=0, **environment):
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(text)], capture_output=True, text=True,
                          timeout=LIMIT, env={**os.environ, **environment})
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def test_use_after_close_is_an_error(context):
    receiver = context.receiver(channel("use"), message=print)
    transmitter = context.transmitter(channel("use"))
    topic = transmitter.topic("t")
    transmitter.close()
    transmitter.close()
    for call in (lambda: topic.send(b"x"), lambda: transmitter.topic("u"), lambda: transmitter.session):
        with pytest.raises(libllm.Error) as refused:
            call()
        assert refused.value.code == libllm.ErrorCode.ESTATE
    context.close()
    context.close()
    assert receiver.closed and context.closed
    receiver.close()
    for call in (context.poll, lambda: context.wait(0), lambda: receiver.subscribe("a"), context.fileno):
        with pytest.raises(libllm.Error):
            call()


def test_what_is_dropped_is_closed():
    context = libllm.Context(huge_pages=False)
    dead = weakref.ref(context)
    context.receiver(channel("drop"), message=lambda message, context=context: None)
    context.transmitter(channel("drop") + "&linger_ns=0").topic("t").put(b"x")
    del context
    gc.collect()
    assert dead() is None


def test_the_interpreter_ends_with_an_open_context():
    assert program(OPEN) == ("", "")


def test_a_handler_that_raises_at_the_end_leaves_no_context_open():
    raising = "context.receiver('loop://end:1', message=lambda message: 1 / 0)\n" \
        "context.transmitter('loop://end:1').topic('t').put(b'x')\n"
    out, error = program(OPEN + raising + "other = libllm.Context(huge_pages=False)\n"
                       "import atexit\natexit._clear()\nlibllm._objects._close_all()\nprint(context.closed, other.closed)\n")
    assert "ZeroDivisionError" in error and out == "True True\n"


def test_the_interpreter_ends_while_a_thread_waits():
    program(OPEN + "import threading\nthreading.Thread(target=context.wait, daemon=True).start()\n")


def test_a_child_has_contexts_of_its_own():
    out, _ = program(OPEN + """
import os
child = os.fork()
if child == 0:
    try:
        topic.send(b"x")
        os._exit(1)
    except libllm.Error as error:
        if error.code != libllm.ErrorCode.ESTATE:
            os._exit(2)
    context.close()
    with libllm.Context(huge_pages=False) as own:
        own.poll()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
topic.put(b"y")
while len(got) < 2:
    context.wait(1)
print(len(got))
""")
    assert out == "2\n"


def test_threads_share_a_context(context):
    got, errors = [], []
    context.receiver(channel("share"), message=got.append)
    transmitter = context.transmitter(channel("share"))
    topics = [transmitter.topic(str(i)) for i in range(4)]

    def work(topic):
        try:
            for i in range(100):
                topic.put(b"%d" % i)
                context.poll()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(topic,)) for topic in topics]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    until(context, lambda: len(got) == 400)
    assert not errors
    for name in "0123":
        assert [int(message.data) for message in got if message.topic == name] == list(range(100))


def test_random_calls_do_not_crash():
    calls, limit = ("1000000", 60 * LIMIT) if EXTENT == "soak" else ("4000", LIMIT)
    done = subprocess.run([sys.executable, "-X", "faulthandler", SOURCE / "bindings/python/tests/random_calls.py", calls],
                          capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_close_waits_for_the_handler_of_another_thread(context):
    entered, order = threading.Event(), []

    def on_message(message):
        entered.set()
        time.sleep(0.1)
        order.append("handler")

    context.receiver(channel("busy"), message=on_message)
    context.transmitter(channel("busy")).topic("t").put(b"x")
    other = context.transmitter(channel("other"))
    thread = threading.Thread(target=lambda: until(context, lambda: order))
    thread.start()
    entered.wait(LIMIT)
    other.close()
    order.append("close")
    thread.join()
    assert order == ["handler", "close"]


def test_threads_close_while_others_deliver(context):
    """Closes give the interpreter's lock up while they queue what other threads deliver."""
    switching, errors, closers = sys.getswitchinterval(), [], []

    def work(done):
        try:
            done()
        except Exception as error:
            errors.append(error)

    def close():
        for _ in range(20):
            transmitter = context.transmitter(channel("closers"), event=lambda event: time.sleep(0))
            topic = transmitter.topic("t")
            for _ in range(50):
                topic.try_send(b"x" * 100)
            transmitter.close()

    def deliver():
        while any(closer.is_alive() for closer in closers):
            context.wait(0.01)

    context.receiver(channel("closers"), messages=lambda messages: [time.sleep(0) for _ in messages],
                     accept=lambda *_: time.sleep(0) is None)
    sys.setswitchinterval(1e-6)
    try:
        closers += [threading.Thread(target=work, args=(close,)) for _ in range(2)]
        threads = closers + [threading.Thread(target=work, args=(deliver,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
    finally:
        sys.setswitchinterval(switching)
    assert not errors and not any(thread.is_alive() for thread in threads)


def test_a_call_waits_for_a_handler_inside_the_library(context):
    entered, order = threading.Event(), []

    def accept(*_):
        entered.set()
        time.sleep(0.1)
        order.append("accept")
        return True

    context.receiver(channel("choice"), message=lambda message: order.append("message"), accept=accept)
    topic = context.transmitter(channel("choice")).topic("t")
    thread = threading.Thread(target=lambda: until(context, lambda: "message" in order))
    topic.put(b"x")
    thread.start()
    entered.wait(LIMIT)
    topic.try_send(b"y")
    order.append("send")
    thread.join()
    assert order.index("accept") < order.index("send")


def shim(tmp_path, text):
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


def test_another_version_of_the_library_is_refused(tmp_path):
    older = shim(tmp_path, 'const char *llm_version(void) { return "0.1.9"; }')
    _, error = program("import libllm", status=1, LD_PRELOAD=older)
    assert "version 0.1.9 is loaded" in error and "ImportError" in error


def test_a_missing_library_is_named(tmp_path):
    _, error = program("import libllm", status=1, LD_LIBRARY_PATH=str(tmp_path))
    assert "apt install libllm0" in error
