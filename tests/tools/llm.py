#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llm as people run it, over shared memory in a directory of its own.

    tests/tools/llm.py LLM COMPLETION PROGRAM...

COMPLETION is the script for bash, each PROGRAM one that llm runs.
"""
import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

llm, completion, programs = sys.argv[1], sys.argv[2], sys.argv[3:]
patience = 30 * int(os.environ.get("LLM_SLOWNESS", "1"))
problems = []
begun = []


def check(what, holds, otherwise=""):
    if not holds:
        problems.append(f"{what}: {otherwise}")


def run(*arguments, status=0, says="", given=b""):
    """Runs the program to its end; checks its status, and a text in its outputs. Returns standard output."""
    done = subprocess.run([llm, *map(str, arguments)], input=given, capture_output=True, timeout=patience, check=False)
    text = (done.stdout + done.stderr).decode(errors="replace")
    check("llm " + " ".join(map(str, arguments)), done.returncode == status and says in text,
          f"status {done.returncode}, not {status}, or no \"{says}\" in: {text}")
    return done.stdout


def begin(*arguments):
    begun.append(subprocess.Popen([llm, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return begun[-1]


def end(process):
    """Returns (status, standard output, standard error) of a process that ends by itself."""
    try:
        output, errors = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        problems.append(f"{process.args} did not end: {errors}")
    return process.returncode, output, errors.decode(errors="replace")


def check_refusals():
    for arguments, says in [
            ([], "a command has to be given"), (["sent"], "sent: no such command"), (["send"], "CHANNEL: has to be given"),
            (["send", "loop://a:1"], "TOPIC: has to be given"), (["send", "--rate", "0", "a", "b"], "not a number from 1"),
            (["send", "--rate"], "--rate: needs a value"), (["send", "a", "b", "-5"], "goes behind --"),
            (["send", "--count", "3", "loop://a:1", "b"], "needs messages as arguments"),
            (["send", "--whole", "loop://a:1", "b", "c"], "not together"), (["send", "--hex", "loop://a:1", "b", "1"], "hexadecimal"),
            (["send", "--hex", "loop://a:1", "b", "1g"], "hexadecimal"), (["send", "--wait", "-1", "a", "b"], "not seconds"),
            (["send", "nothing", "b", "c"], "channel \"nothing\""), (["send", "loop://a:1?rare=1", "b", "c"], "rare"),
            (["receive"], "CHANNEL: has to be given"), (["receive", "--json", "--hex", "a"], "at a time"),
            (["receive", "--limit", "x", "a"], "\"x\" is not a number"), (["receive", "loop://a:1", "a.>.b"], "a.>.b"),
            (["receive", "--json=1", "a"], "takes no value"), (["ping"], "CHANNEL: has to be given"),
            (["ping", "--size", "23", "a"], "from 24"), (["ping", "a", "b"], "one channel at a time"),
            (["store", "nothing"], "no such command"), (["stat", "--nothing"], "no such option")]:
        run(*arguments, status=2, says=says)


def check_formats(channel):
    sent = [b"plain\ttext", "\u00e9".encode(), b"a\\", "\u009b2J".encode(), b"\x00\xff\\\x1b[2J", b""]
    expected = {
        "": "t: plain\ttext\nt: \u00e9\n".encode() + b"t: a\\x5c\nt: \\xc2\\x9b2J\nt: \\x00\\xff\\x5c\\x1b[2J\nt: \n",
        "--hex": b"".join(b"t: " + message.hex().encode() + b"\n" for message in sent),
        "--plain": b"".join(message + b"\n" for message in sent),
        "--raw": b"".join(sent),
        "--count": b"6 messages, 25 bytes, 0 lost\n",
    }
    receivers = {form: begin("receive", "--limit", 6, *([form] if form else []), channel) for form in [*expected, "--json"]}
    run("send", "--receivers", 6, "--wait", patience, "--hex", channel, "t", *[message.hex() for message in sent],
        says="sent 6 messages, 25 bytes")
    for form, text in expected.items():
        status, output, errors = end(receivers[form])
        check(f"receive {form}", status == 0 and output.endswith(text) and (form == "--count" or output == text), f"{status} {output} {errors}")
    status, output, errors = end(receivers["--json"])
    lines = [json.loads(line) for line in output.splitlines()]
    check("receive --json", [line["number"] for line in lines] == list(range(6)) and {line["topic"] for line in lines} == {"t"}, output)
    bodies = [line["text"].encode() if "text" in line else base64.b64decode(line["base64"]) for line in lines]
    check("the bodies as JSON", bodies == sent, bodies)


def check_input(channel):
    """Lines of standard input, and all of it as one message; two of the topics are selected."""
    receiver = begin("receive", "--limit", 4, channel, "a.*", "c")
    for topic, options, text in [("a.x", [], b"one\ntwo\n"), ("b", [], b"not this\n"), ("c", [], b"three"), ("a.y", ["--whole"], b"all\nof it")]:
        run("send", "--receivers", 1, "--wait", patience, "--quiet", *options, channel, topic, given=text)
    status, output, errors = end(receiver)
    check("selected topics", (status, output) == (0, b"a.x: one\na.x: two\nc: three\na.y: all\\x0aof it\n"), f"{output} {errors}")


def check_limit(channel):
    """No message beyond the limit is printed, though all arrive together."""
    receiver = begin("receive", "--plain", "--limit", 3, channel)
    run("send", "--receivers", 1, "--wait", patience, channel, "t", *range(1000))
    check("receive --limit", end(receiver)[:2] == (0, b"0\n1\n2\n"))


def check_waiting(channel):
    run("send", "--receivers", 1, "--wait", "0.1", channel, "t", "x", status=1, says="0 of 1 receivers are there: nothing was sent")
    run("receive", "--timeout", "0.1", channel, status=1)
    run("ping", "--wait", "0.1", channel, status=1, says="nobody answered")


def check_cache(channel):
    """A receiver that joins late gets the cached messages of a sender that stays; a signal ends both."""
    sender = begin("send", "--cache", 2, "--stay", channel, "t", "1", "2", "3")
    # In its first second a session is delivered from its first message.
    got, until = b"", time.monotonic() + patience
    while got != b"t: 2\nt: 3\n" and time.monotonic() < until:
        got = run("receive", "--limit", 2, "--timeout", patience, channel + "&join=latest")
    check("the cached messages", got == b"t: 2\nt: 3\n", got)
    sender.send_signal(signal.SIGTERM)
    status, _, errors = end(sender)
    check("a sender that stays", status == 0 and "sent 3 messages" in errors, f"{status} {errors}")
    sender = begin("send", "--count", 0, "--rate", 1000, channel, "t", "again")
    run("receive", "--limit", 5, "--timeout", patience, channel, says="t: again\n" * 5)
    sender.send_signal(signal.SIGINT)
    check("a sender without an end", end(sender)[0] == 0)


def check_signal(channel):
    """A signal fails a sender that has not sent everything, and one that waits for more input ends well."""
    for options, given, expected in [(["--rate", 1], b"1\n2\n3\n", 1), ([], b"1\n", 0), ([], b"1\n2", 1), (["--count", 3, "--rate", 1, channel, "t", "1"], b"", 1)]:
        arguments = options if channel in options else [*options, channel, "t"]
        receiver = begin("receive", "--limit", 1, channel)
        sender = begin("send", "--receivers", 1, "--wait", patience, *arguments)
        sender.stdin.write(given)
        sender.stdin.flush()
        end(receiver)
        sender.send_signal(signal.SIGTERM)
        # Its input has not ended.
        status, errors = sender.wait(patience), sender.stderr.read().decode()
        check(f"send {options} that a signal ends", status == expected and ("not everything" in errors) == (expected == 1), f"{status} {errors}")
        sender.stdin.close()


def check_ping(channel):
    reflectors = [begin("ping", "--reflect", channel) for _ in range(2)]
    for reflector in reflectors:
        reflector.stderr.readline()
    # Another one measures at the same time: each counts its own answers.
    other = begin("ping", "--count", 20, "--interval", "0.001", "--wait", patience, "--json", channel)
    answers = json.loads(run("ping", "--count", 20, "--interval", "0.001", "--size", 100, "--wait", patience, "--json", channel))
    status, output, errors = end(other)
    check("another one", status == 0 and [one["answers"] for one in json.loads(output or "{}").get("reflectors", [])] == [20, 20], f"{output} {errors}")
    check("two reflectors", answers["sent"] == 20 and sorted(one["answers"] for one in answers["reflectors"]) == [20, 20], answers)
    for one in answers["reflectors"]:
        check("the percentiles", 0 < one["min_ns"] <= one["p50_ns"] <= one["p90_ns"] <= one["p99_ns"] <= one["max_ns"], one)
    # One without an end: a signal ends it, and what is under way is not missing.
    endless = begin("ping", "--count", 0, "--interval", "0.0005", "--wait", patience, channel)
    run("receive", "--limit", 200, "--timeout", patience, channel, "llm.ping")
    endless.send_signal(signal.SIGINT)
    status, _, errors = end(endless)
    check("a ping that a signal ends", status == 0, f"{status} {errors}")
    for reflector in reflectors:
        check("the reflector's name", any(one["name"].endswith(f":{reflector.pid}") for one in answers["reflectors"]), answers)
        reflector.send_signal(signal.SIGTERM)
        check("the reflector's end", end(reflector)[0] == 0)


def check_programs():
    """Each program that llm runs gets the arguments, and its output and status are passed on."""
    for program in programs:
        name = pathlib.Path(program).name.removeprefix("llm-")
        own = subprocess.run([program, "--help"], capture_output=True, check=True).stdout
        check(f"llm {name} --help", run(name, "--help") == own and run("help", name) == own)
        check("the help of llm", f"\n  {name} " in run("--help").decode())
    run("--version", says="llm ")


def completed(*words):
    """Returns what bash completes the last word to."""
    script = f'. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); {{ read -r _; }} < <(complete -p llm) && _llm "$1"; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script, "bash", completion, llm, *words], capture_output=True, text=True, check=False)
    check("the completion", done.returncode == 0 and not done.stderr, done.stderr)
    return done.stdout.split()


def check_completion():
    for words, expected in [(["se"], ["send"]), (["receive", "--j"], ["--json"]), (["receive", "c", "--li"], ["--limit"]), (["ping", "--refl"], ["--reflect"]),
                            (["store", "ver"], ["verify"]), (["store", "export", "--format", "p"], ["pcap"]), (["store", "play", "--rec"], ["--receivers"]),
                            (["store", "record", "--until-a"], ["--until-acknowledged"]), (["doctor", "--transport", ""], ["udp", "roce"]),
                            (["stat", "--prom"], ["--prometheus"]), (["send", "c", "t", "word"], [])]:
        check("completion of " + " ".join(words), completed(*words) == expected, completed(*words))
    check("completion of all commands", {"send", "receive", "ping", "doctor", "stat", "store", "key", "shm", "--help"} == set(completed("")), completed(""))


def check_all(channels):
    check_refusals()
    for each in (check_formats, check_input, check_limit, check_waiting, check_cache, check_signal, check_ping):
        each(next(channels))
    check_programs()
    check_completion()


def main():
    with tempfile.TemporaryDirectory(prefix="libllm-", dir="/dev/shm") as directory:
        os.environ["LLM_STATS_DIRECTORY"] = ""
        try:
            check_all(iter(f"shm://t{number}:1?shm_directory={directory}" for number in range(100)))
        finally:
            for process in begun:
                process.kill()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


sys.exit(main())
