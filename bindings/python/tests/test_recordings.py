# SPDX-License-Identifier: Apache-2.0
"""What a store records is replayed: as messages, as columns, and as a frame."""
import struct

import pytest

import libllm
from conftest import channel, until


@pytest.fixture
def recorded(context, tmp_path):
    acknowledged = []
    store = context.store(libllm.StoreOptions(directory=str(tmp_path), segment_bytes=16 << 20, spares=0, reserve_bytes=0))
    store.follow(channel("store"), libllm.Options(receiver_name="a"))
    transmitter = context.transmitter(channel("store"), event=acknowledged.append)
    topic = transmitter.topic("orders")
    topic.assure(libllm.Assurance(receivers=0, names="a"))
    for i in range(100):
        topic.put(struct.pack("<Id", i, i / 4))
    until(context, lambda: acknowledged and acknowledged[-1].last == 99)
    transmitter.close()
    store.close()
    return tmp_path


def test_messages_and_events_are_replayed(recorded):
    assert [struct.unpack("<Id", message.data) for message in libllm.replay(recorded)] == [(i, i / 4) for i in range(100)]
    assert [message.number for message in libllm.replay(recorded, start=libllm.JoinMode.NUMBER, value=90)] == list(range(90, 100))
    kinds = [item.kind for item in libllm.replay(recorded, events=True) if isinstance(item, libllm.Event)]
    assert kinds[0] == libllm.EventKind.SESSION_NEW and kinds[-1] == libllm.EventKind.SESSION_END
    recording, = libllm.recordings(recorded)
    assert recording.message_next == 100 and recording.channel.startswith("loop://store:1")
    # An iterator that is not used up closes its files.
    next(libllm.replay(recorded))


def test_a_structured_array_has_every_message(recorded):
    numpy = pytest.importorskip("numpy")
    columns = libllm.replay_columns(recorded)
    rows = columns.read(numpy.dtype([("id", "<u4"), ("price", "<f8")]))
    assert rows["id"].tolist() == list(range(100)) and rows["price"].sum() == sum(range(100)) / 4
    assert columns.topic_names() == ["orders"] * 100 and (columns.received_at > 0).all()


def test_a_frame_has_the_fields(recorded):
    pytest.importorskip("pandas")
    frame = libllm.replay_frame(recorded, dtype=[("id", "<u4"), ("price", "<f8")])
    assert frame["id"].tolist() == list(range(100)) and set(frame["topic"]) == {"orders"}
    assert libllm.replay_frame(recorded)["data"][7] == struct.pack("<Id", 7, 7 / 4)


def test_a_directory_without_recordings_is_an_error(tmp_path):
    for call in (lambda: list(libllm.replay(tmp_path / "absent")), lambda: libllm.recordings(tmp_path / "absent")):
        with pytest.raises(libllm.Error) as refused:
            call()
        assert refused.value.code == libllm.ErrorCode.ENOTFOUND and "absent" in str(refused.value)


def test_a_replay_reads_its_key_file(recorded):
    with pytest.raises(libllm.Error) as refused:
        list(libllm.replay(recorded, keys=str(recorded / "absent.keys")))
    assert refused.value.code in (libllm.ErrorCode.ENOTFOUND, libllm.ErrorCode.EOPTION)
