// SPDX-License-Identifier: Apache-2.0
/*
 * NORM: one stream for each direction, each message after a length of two bytes. C++, since the library's header is not valid C.
 * Writes are limited to the space that the receiver has acknowledged, so the stream never drops unread data.
 */
#include <cstring>
#include <sys/socket.h> /* before the library's header, which needs its declarations */

#include <normApi.h>

#include "adapter.h"

namespace
{

const double rate_bits = 20e9;             /* far above what the machine can send: no pacing */
const unsigned segment_bytes = 1400;       /* fits with headers into an MTU of 1500 */
const unsigned block_segments = 64;
const unsigned stream_bytes = 67108864;
const unsigned mark_bytes = 4194304;       /* between two acknowledgements; each takes milliseconds */
const unsigned socket_bytes = 16777216;
const unsigned length_bytes = 2;
const unsigned out_bytes = 65536;
const unsigned in_bytes = 131072;
const unsigned boost_rate = 50000;         /* messages a second: above this, real-time priority for the library starves the program */
const double round_trip_s = 0.001;

struct stream {
    NormInstanceHandle instance;
    NormSessionHandle send_session;
    NormSessionHandle receive_session;
    NormObjectHandle send_stream;
    NormObjectHandle receive_stream;
    unsigned marked_bytes;   /* written before the watermark in flight, not yet acknowledged */
    unsigned unmarked_bytes; /* written after that watermark */
    bool gap;                /* look for the start of the next message */
    size_t out_used;
    size_t in_used;
    bool flush;              /* send the written data now */
    char out[out_bytes];     /* written by the program, not yet accepted by the stream */
    char in[in_bytes];
};

struct stream stream;

/* ------------------------------------------------------------------------------------------------ sending */

/* Requests an acknowledgement of the written data, once that is a large part of the buffer; one request at a time. */
void stream_mark()
{
    if (stream.marked_bytes > 0 || stream.unmarked_bytes < mark_bytes)
        return;
    if (!NormSetWatermark(stream.send_session, stream.send_stream, true))
        return;
    stream.marked_bytes = stream.unmarked_bytes;
    stream.unmarked_bytes = 0;
}

/* Writes as much as the limit of unacknowledged data permits. */
void stream_write()
{
    unsigned room = stream_bytes / 2 - stream.marked_bytes - stream.unmarked_bytes;
    unsigned want = stream.out_used < room ? (unsigned)stream.out_used : room;
    unsigned taken = want > 0 ? NormStreamWrite(stream.send_stream, stream.out, want) : 0;

    stream.out_used -= taken;
    memmove(stream.out, stream.out + taken, stream.out_used);
    stream.unmarked_bytes += taken;
    if (taken > 0 && stream.out_used == 0)
        NormStreamMarkEom(stream.send_stream); /* a message starts next: a receiver with a gap can resume here */
    stream_mark();
}

void stream_flush()
{
    stream_write();
    if (stream.out_used > 0 || !stream.flush)
        return;
    NormStreamFlush(stream.send_stream, false, NORM_FLUSH_PASSIVE);
    stream.flush = false;
}

int stream_send(const void *data, size_t size, bool more)
{
    uint16_t length = (uint16_t)size;

    if (stream.out_used + length_bytes + size > out_bytes) {
        stream_write();
        if (stream.out_used + length_bytes + size > out_bytes)
            return 0;
    }
    memcpy(stream.out + stream.out_used, &length, sizeof length);
    memcpy(stream.out + stream.out_used + length_bytes, data, size);
    stream.out_used += length_bytes + size;
    stream.flush = stream.flush || !more;
    if (!more)
        stream_flush();
    return 1;
}

/* ---------------------------------------------------------------------------------------------- receiving */

int stream_take()
{
    size_t at = 0;
    int count = 0;

    while (stream.in_used - at >= length_bytes) {
        uint16_t length;

        memcpy(&length, stream.in + at, sizeof length);
        if (stream.in_used - at < length_bytes + (size_t)length)
            break;
        adapter_deliver(stream.in + at + length_bytes, length);
        at += length_bytes + (size_t)length;
        count++;
    }
    stream.in_used -= at;
    memmove(stream.in, stream.in + at, stream.in_used);
    return count;
}

int stream_read()
{
    int count = 0;

    if (stream.receive_stream == NORM_OBJECT_INVALID || (stream.gap && !NormStreamSeekMsgStart(stream.receive_stream)))
        return 0;
    stream.gap = false;
    for (;;) {
        unsigned bytes = in_bytes - (unsigned)stream.in_used;

        if (!NormStreamRead(stream.receive_stream, stream.in + stream.in_used, &bytes)) {
            adapter_fail("the stream", "has a gap");
            stream.in_used = 0;
            stream.gap = true;
            return count;
        }
        if (bytes == 0)
            return count;
        stream.in_used += bytes;
        count += stream_take();
    }
}

void stream_acknowledged()
{
    if (NormGetAckingStatus(stream.send_session) != NORM_ACK_SUCCESS) {
        NormResetWatermark(stream.send_session);
        return;
    }
    stream.marked_bytes = 0;
    stream_mark();
}

bool stream_event(const NormEvent *event)
{
    switch (event->type) {
    case NORM_RX_OBJECT_NEW:
        stream.receive_stream = event->object;
        return true;
    case NORM_RX_OBJECT_UPDATED:
        return true;
    case NORM_TX_WATERMARK_COMPLETED:
        stream_acknowledged();
        return false;
    default:
        return false;
    }
}

int stream_poll()
{
    NormEvent event;
    bool readable = false;
    int count = 0;

    stream_flush();
    while (NormGetNextEvent(stream.instance, &event, false))
        readable = stream_event(&event) || readable;
    if (readable)
        count = stream_read();
    if (count > 0)
        adapter_delivered();
    return count;
}

void stream_wait(uint64_t until)
{
    struct pollfd fd = {NormGetDescriptor(stream.instance), POLLIN, 0};

    adapter_sleep(&fd, 1, until);
}

/* -------------------------------------------------------------------------------------------- open, close */

NormSessionHandle stream_session(const struct adapter_link *link, const char *group, unsigned port)
{
    NormSessionHandle session =
        NormCreateSession(stream.instance, group, (UINT16)port, link->near ? 1 : 2);

    if (session != NORM_SESSION_INVALID)
        NormSetMulticastInterface(session, link->interface);
    return session;
}

int stream_open_sender(const struct adapter_link *link)
{
    NormSessionHandle session = stream_session(link, link->send_group, link->send_port);

    stream.send_session = session;
    if (session == NORM_SESSION_INVALID)
        return adapter_fail("NormCreateSession", "refused to send to the group");
    NormSetTxRate(session, rate_bits);
    NormSetCongestionControl(session, false);
    NormSetGrttProbingMode(session, NORM_PROBE_NONE); /* probing delays acknowledgements under load */
    NormSetGrttEstimate(session, round_trip_s);
    NormSetBackoffFactor(session, 0.0);
    NormSetFlowControl(session, 0.0);
    NormAddAckingNode(session, link->near ? 2 : 1);
    if (!NormStartSender(session, NormGetRandomSessionId(), 2 * stream_bytes, segment_bytes, block_segments, 0))
        return adapter_fail("NormStartSender", "failed");
    NormSetTxSocketBuffer(session, socket_bytes);
    stream.send_stream = NormStreamOpen(session, stream_bytes);
    return stream.send_stream != NORM_OBJECT_INVALID ? 0 : adapter_fail("NormStreamOpen", "failed");
}

int stream_open_receiver(const struct adapter_link *link)
{
    NormSessionHandle session = stream_session(link, link->receive_group, link->receive_port);

    stream.receive_session = session;
    if (session == NORM_SESSION_INVALID)
        return adapter_fail("NormCreateSession", "refused to receive from the group");
    NormSetDefaultUnicastNack(session, true);
    NormSetDefaultSyncPolicy(session, NORM_SYNC_ALL);
    if (!NormStartReceiver(session, 4 * stream_bytes))
        return adapter_fail("NormStartReceiver", "failed");
    NormSetRxSocketBuffer(session, socket_bytes);
    return 0;
}

int stream_open(const struct adapter_link *link)
{
    bool boost = !link->throughput && link->rate < boost_rate;

    stream.instance = NormCreateInstance(boost);
    if (stream.instance == NORM_INSTANCE_INVALID && boost)
        stream.instance = NormCreateInstance(false); /* not every user may set real-time priority */
    if (stream.instance == NORM_INSTANCE_INVALID)
        return adapter_fail("NormCreateInstance", "failed");
    return stream_open_receiver(link) != 0 || stream_open_sender(link) != 0 ? -1 : 0;
}

void stream_close()
{
    if (stream.instance == NORM_INSTANCE_INVALID)
        return;
    NormStopInstance(stream.instance);
    NormDestroyInstance(stream.instance);
}

} /* namespace */

extern "C" const struct adapter adapter_peer = {
    "norm", 256, ADAPTER_YIELD, ADAPTER_SLEEP, stream_open, stream_send, stream_poll, stream_wait, stream_close,
    nullptr, nullptr, nullptr, nullptr, nullptr,
};
