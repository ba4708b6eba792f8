# SPDX-License-Identifier: Apache-2.0
"""Messages and events, in each of the ways in which they are delivered."""
import threading

import pytest

import libllm
from conftest import LIMIT, channel, until


def test_messages_and_events_arrive_in_order(context):
    got, events, of_transmitter = [], [], []
    context.receiver(channel("order"), message=got.append, event=events.append)
    transmitter = context.transmitter(channel("order"), event=of_transmitter.append)
    quotes, news = transmitter.topic("quotes"), transmitter.topic("news")
    for i in range(100):
        (quotes if i % 3 else news).put(b"%d" % i)
    until(context, lambda: len(got) == 100)
    assert [int(message.data) for message in got] == list(range(100))
    assert [message.number for message in got] == list(range(100))
    assert all(message.topic == ("quotes" if int(message.data) % 3 else "news") for message in got)
    assert {message.session for message in got} == {transmitter.session} and transmitter.next == 100
    assert [event.kind for event in events] == [libllm.EventKind.SESSION_NEW] + [libllm.EventKind.TOPIC_NEW] * 2
    assert events[1].topic == "quotes" and "quotes" in events[1].text
    assert context.counter("messages_delivered") == 100
    assert any(counter.name == "messages_delivered" and counter.value == 100 for counter in context.counters())


def test_what_is_sent_is_any_bytes(context):
    got = []
    context.receiver(channel("bytes"), message=lambda message: got.append(message.data))
    topic = context.transmitter(channel("bytes")).topic("t")
    for data in (b"", bytearray(b"ab"), memoryview(b"abcd")[1:3], b"x" * 60000):
        topic.put(data)
    until(context, lambda: len(got) == 4)
    assert got == [b"", b"ab", b"bc", b"x" * 60000]
    with pytest.raises(TypeError):
        topic.send("text")
    with pytest.raises(libllm.Error) as refused:
        topic.send(b"x" * 100000)
    assert refused.value.code == libllm.ErrorCode.EMSGSIZE and "message_bytes_max" in str(refused.value)


def test_views_end_with_their_batch(context):
    views, parts, copies, together = [], [], [], []

    def take(messages):
        together.append(len(messages))
        for message in messages:
            views.append(message.data)
            parts.append(message.data[1:])
            copies.append(bytes(message.data))

    context.receiver(channel("views"), views=take)
    topic = context.transmitter(channel("views")).topic("t")
    for i in range(20):
        topic.put(b"message %d" % i)
    until(context, lambda: len(copies) == 20)
    assert copies == [b"message %d" % i for i in range(20)] and sum(together) == 20
    for view in views + parts:
        with pytest.raises(ValueError):
            bytes(view)


def test_arrays_outlive_the_views_they_were_made_from(context):
    numpy = pytest.importorskip("numpy")
    arrays = []
    context.receiver(channel("arrays"), views=lambda messages: arrays.extend(
        numpy.frombuffer(message.data, "u1") for message in messages))
    topic = context.transmitter(channel("arrays")).topic("t")
    for i in range(50):
        topic.put(b"%04d" % i)
        until(context, lambda: len(arrays) == i + 1)
    context.close()
    assert [array.tobytes() for array in arrays] == [b"%04d" % i for i in range(50)]


def test_columns_have_a_row_for_each_message(context):
    numpy = pytest.importorskip("numpy")
    batches = []
    layout = numpy.dtype([("price", "f8"), ("size", "u8")])
    context.receiver(channel("columns"), columns=batches.append)
    transmitter = context.transmitter(channel("columns"))
    topics = [transmitter.topic("a"), transmitter.topic("b")]
    for i in range(100):
        topics[i % 2].put(numpy.array([(i / 2, i)], layout))
    until(context, lambda: sum(map(len, batches)) == 100)
    assert numpy.concatenate([batch.number for batch in batches]).tolist() == list(range(100))
    read = numpy.concatenate([batch.read(layout) for batch in batches])
    assert read["price"].tolist() == [i / 2 for i in range(100)]
    assert [name for batch in batches for name in batch.topic_names()] == ["a", "b"] * 50
    assert batches[0].bytes(0) == numpy.array([(0, 0)], layout).tobytes()
    with pytest.raises(ValueError):
        batches[0].read("u1")


def test_columns_have_messages_of_any_size(context):
    numpy = pytest.importorskip("numpy")
    batches = []
    context.receiver(channel("sizes"), columns=batches.append)
    topic = context.transmitter(channel("sizes")).topic("t")
    for texts in ([b"", b""], [b"ab", b"c"], [b"", b"abc"], [b"abc", b"def"]):
        for text in texts:
            topic.send(text, libllm.SendFlags.MORE)
        until(context, lambda: sum(map(len, batches)) == 2)
        assert len(batches) == 1 and [batches[0].bytes(row) for row in (0, 1)] == texts
        if len(texts[0]) == len(texts[1]) > 0:
            assert batches[0].read(numpy.dtype(("S", 3))).tolist() == texts
        else:
            with pytest.raises(ValueError):
                batches[0].read("u1")
        batches.clear()


def test_exceptions_come_out_of_poll_and_nothing_is_lost(context):
    got, raised = [], []

    def fail(message):
        got.append(message.number)
        if message.number % 3 == 0:
            raise KeyError(message.number)

    context.receiver(channel("raise"), message=fail)
    topic = context.transmitter(channel("raise")).topic("t")
    for i in range(30):
        topic.send(b"x", libllm.SendFlags.MORE)
    while len(got) < 30 or context.waiting:
        try:
            context.wait(1)
        except KeyError as error:
            raised.append(error.args[0])
    assert got == list(range(30)) and raised == list(range(0, 30, 3))


def test_accept_and_join_decide_and_their_mistakes_lose_nothing(context):
    got, sessions = [], []

    def accept(session, topic):
        if topic == "fails":
            raise RuntimeError("accept")
        return topic != "unwanted"

    context.receiver(channel("accept"), message=lambda message: got.append(message.topic), accept=accept, join=sessions.append)
    transmitter = context.transmitter(channel("accept"))
    for name in ("wanted", "unwanted", "fails"):
        transmitter.topic(name).put(b"x")
    with pytest.raises(RuntimeError):
        until(context, lambda: False)
    until(context, lambda: len(got) == 2)
    assert got == ["wanted", "fails"] and sessions == [transmitter.session]


def test_handlers_may_open_send_and_close_but_not_poll(context):
    got, again = [], []

    def act(message):
        got.append(message.data)
        if message.data == b"first":
            with pytest.raises(libllm.Error) as refused:
                context.poll()
            assert refused.value.code == libllm.ErrorCode.ESTATE
            topic.send(b"second")
            context.receiver(channel("other"), message=again.append)
        else:
            receiver.close()

    receiver = context.receiver(channel("act"), message=act)
    topic = context.transmitter(channel("act")).topic("t")
    topic.put(b"first")
    until(context, lambda: receiver.closed)
    topic.send(b"third")
    context.wait(0.01)
    assert got == [b"first", b"second"]


def test_filters_and_subjects_select(context):
    got = []
    receiver = context.receiver(channel("filter"), message=lambda message: got.append(message.data))
    receiver.subscribe("prices.>")
    receiver.filter(libllm.Filter(labels=[libllm.LabelMatch(3, 1)], selector="size > 10 AND venue = 'X'",
                                  names={"size": 1, "venue": 2}))
    transmitter = context.transmitter(channel("filter"))
    topic, other = transmitter.topic("prices.bonds"), transmitter.topic("news")
    for label, size in ((1, 11), (1, 10), (2, 11), (5, 12)):
        for of in (topic, other):
            of.send_with(b"%d %d" % (label, size), libllm.Attributes(
                label=label, properties=[libllm.Property(1, size), libllm.Property(2, b"X")]))
    until(context, lambda: len(got) == 2)
    receiver.filter(None)
    topic.put(b"plain")
    until(context, lambda: len(got) == 3)
    assert got == [b"1 11", b"5 12", b"plain"]
    with pytest.raises(libllm.Error):
        receiver.filter(libllm.Filter(selector="size >"))


def test_assured_messages_are_acknowledged_by_the_application(context):
    acknowledged = []
    receiver = context.receiver(channel("assured") + "&acknowledge=application", message=lambda message: got.append(message))
    got = []
    transmitter = context.transmitter(channel("assured"), event=lambda event: acknowledged.append(event))
    topic = transmitter.topic("t")
    topic.assure(libllm.Assurance(messages_max=8))
    topic.put(b"x")
    until(context, lambda: got)
    assert not acknowledged
    receiver.acknowledge(got[0])
    until(context, lambda: acknowledged)
    assert acknowledged[0].kind == libllm.EventKind.ACKNOWLEDGED and acknowledged[0].last == 0


def test_back_pressure_is_an_exception_or_a_wait(context):
    transmitter = context.transmitter(channel("full", "history_bytes=1M&history_packets=256&linger_ns=0"))
    topic = transmitter.topic("t")
    topic.limit_rate(libllm.Rate(bytes_per_s=65536))
    with pytest.raises(BlockingIOError):
        while True:
            topic.send(b"x" * 1000)
    assert topic.try_send(b"x" * 1000) is False
    with pytest.raises(libllm.BackPressure):
        topic.put(b"x" * 1000, timeout=0)
    topic.put(b"x" * 1000, timeout=LIMIT)


def test_a_send_of_another_thread_ends_a_wait(context):
    got = []
    context.receiver(channel("threads"), message=got.append)
    topic = context.transmitter(channel("threads")).topic("t")
    thread = threading.Thread(target=lambda: [topic.put(b"x") for _ in range(200)])
    thread.start()
    until(context, lambda: len(got) == 200)
    thread.join()
    assert [message.number for message in got] == list(range(200))


def test_the_log_names_what_was_wrong():
    lines = []
    with libllm.Context(huge_pages=False, log=lambda level, text: lines.append((level, text))) as context:
        with pytest.raises(libllm.Error) as refused:
            context.transmitter("loop://a:1?ttl=999")
    assert lines[0][0] == libllm.Level.ERROR and "ttl" in lines[0][1] and "ttl" in str(refused.value)
    assert refused.value.code == libllm.ErrorCode.EOPTION
