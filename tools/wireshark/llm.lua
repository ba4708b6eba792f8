-- SPDX-License-Identifier: Apache-2.0
--
-- A Wireshark dissector for what libllm puts on a network. docs/protocol.md specifies that; section numbers here are its.
-- docs/wireshark.md says how to load this and lists the fields. One file, so that it can be copied anywhere; Lua 5.2 to 5.4.
--
-- Packets and frames are described in tables: `types` has the packets, with the layout of each, and `frames` the frames of data
-- packets. A new kind is an entry in one of them. Bytes are untrusted: every function that advances over them checks the bounds.

local llm = Proto("llm", "libllm reliable multicast")

local HEADER_BYTES = 16
local ADDRESS_MAX = 31
local RANGES_MAX = 64
local SPANS_MAX = 16
local PAYLOAD_MAX = 512
local MESSAGE_MAX = 16777216
local WRAP = 2 ^ 32   -- of the low halves
local EXACT = 2 ^ 53  -- integers below are exact in a double, which is what Lua 5.2 computes with
local NAKS_MAX = 256 -- in which the reason of a repair is looked for
local REQUESTED_MAX = 65536 -- packets of a NAK that are looked for: as many as a window may have

-- ---------------------------------------------------------------------------------------------------------- fields

local fields = {}

local function field(kind, name, ...)
    fields[name] = ProtoField[kind]("llm." .. name, ...)
end

-- An integer of a layout. more: base, values (their names), mask, bits (of flags: name, mask, title).
local function integer(name, bytes, title, more)
    more = more or {}
    field("uint" .. 8 * bytes, name, title, more.base or base.DEC, more.values, more.mask)
    for _, bit in ipairs(more.bits or {}) do
        field("bool", name .. "." .. bit[1], bit[3], 8, nil, bit[2])
    end
    return { name = name, bytes = bytes, bits = more.bits }
end

field("uint8", "version", "Version", base.DEC, nil, 0xf0)
local FLAGS = integer("flags", 1, "Flags", { base = base.HEX, bits = { { "extended", 0x80, "Extended" } } })
field("bool", "flags.stream", "STREAM: the session continues a stream", 8, nil, 1)
field("bool", "flags.merge", "MERGE: other sessions of the stream send the same messages", 8, nil, 2)
field("uint8", "flags.unrepaired", "Packets directly before that are not repaired", base.DEC, nil, 0x3f)
local SIZE = integer("size", 2, "Size")
local FIRST = integer("first", 2, "First frame at")
local TAG = integer("tag", 4, "Tag: low half of the session", { base = base.HEX })
local SEQ = integer("seq", 4, "Packet number, low half")
local NUMBER = integer("number", 4, "First message number, low half")
local SESSION = integer("session", 8, "Session", { base = base.HEX })
local RECEIVER = integer("receiver", 8, "Receiver", { base = base.HEX })
local TOKEN = integer("token", 8, "Token of the receiver at its address", { base = base.HEX })
field("bytes", "unused", "Not used")
field("uint16", "extension.size", "Size of the extensions")
field("bytes", "extension.bytes", "Extensions")
field("bytes", "trailing", "Behind the last known field")
field("uint32", "train", "Packets in this datagram")
field("uint64", "packet", "Packet number")

local SUITE_NAMES = { [1] = "aes-128-gcm", [2] = "aes-256-gcm", [3] = "chacha20-poly1305" }
local MODE_NAMES = { [1] = "encrypted", [2] = "authenticated" }
field("bytes", "protected.body", "Protected body")
local SENDER = integer("protected.sender", 8, "Sender of control packets", { base = base.HEX })
local COUNTER = integer("protected.counter", 8, "Its number there")
local EPOCH = integer("protected.epoch", 2, "Epoch of the key")
local SUITE = integer("protected.suite", 1, "Suite", { values = SUITE_NAMES })
local MODE = integer("protected.mode", 1, "Mode", { values = MODE_NAMES })
field("bytes", "protected.tag", "Tag of the packet")

field("uint32", "messages", "Messages that start here")
field("none", "message", "Message")
field("uint32", "message.size", "Size")
field("uint64", "message.number", "Number")
field("uint32", "message.topic", "Topic")
field("string", "message.topic_name", "Name of the topic")
field("bytes", "message.data", "Data")
field("uint32", "message.left", "Continues, bytes in the next packets")
field("none", "continued", "Continued message")
field("uint64", "continued.number", "Number")
field("uint32", "continued.size", "Size of the whole message")
field("uint32", "continued.topic", "Topic")
field("uint32", "continued.left", "Continues, bytes in the next packets")
field("framenum", "continued.frame", "Begins in frame", base.NONE)
field("bytes", "continued.data", "Data")
field("uint32", "topic", "Topic of the messages that follow")
field("none", "announcement", "Announcement")
field("uint16", "announcement.size", "Size")
field("uint32", "announcement.topic", "Topic")
field("string", "announcement.name", "Name")
field("uint8", "topic.flags", "Flags: 1, it has no history", base.HEX)
field("bytes", "padding", "Padding")
field("none", "attributes", "Attributes")
field("uint16", "attributes.size", "Size")
field("uint32", "attributes.label", "Label", base.HEX)
field("bytes", "attributes.bitmap", "Bitmap")
field("none", "property", "Property")
field("uint16", "property.code", "Code")
field("uint8", "property.type", "Type", base.DEC, { [1] = "int32", [2] = "int64", [3] = "double", [4] = "bytes" })
field("bytes", "property.value", "Value")
field("none", "summary", "Summary")
field("uint16", "summary.size", "Size")
field("uint32", "summary.any", "Bits that a label has", base.HEX)
field("uint32", "summary.all", "Bits that all labels have", base.HEX)
field("uint16", "summary.end", "Up to")
field("uint16", "summary.count", "Messages")
field("none", "numbers", "Numbers skipped")
field("uint16", "numbers.size", "Size")
field("uint32", "numbers.count", "Count")
field("none", "skipped", "Extension frame")
field("uint8", "skipped.code", "Code", base.HEX)
field("uint16", "skipped.size", "Size")
field("bytes", "skipped.bytes", "Bytes")
field("bytes", "unreadable", "The rest, which cannot be read")

field("uint8", "address.size", "Size of the address")
field("bytes", "address", "Address")
field("uint8", "address.family", "Family")
field("ipv4", "address.ipv4", "IPv4")
field("ipv6", "address.ipv6", "IPv6")
field("uint16", "address.port", "Port")
-- Positions in last value caches, of spans and records.
for _, kind in ipairs { "join.from", "join.to", "lvc.from", "lvc.to", "record" } do
    field("uint32", kind .. "_topic", "Topic")
    field("uint64", kind .. "_number", "Message number")
    field("uint32", kind .. "_offset", "Offset")
end
field("none", "join.span", "Span")
field("none", "record", "Record")
field("uint16", "record.size", "Size")
field("bytes", "record.data", "Frames of the message")
for _, kind in ipairs { "nak", "reject", "join" } do
    field("uint16", kind .. ".ranges", "Ranges")
    field("none", kind .. ".range", "Range")
    field("uint32", kind .. ".first", "First packet, low half")
    field("uint32", kind .. ".count", "Packets")
    field("uint64", kind .. ".first_packet", "First packet")
    field("uint64", kind .. ".last_packet", "Last packet")
    field("uint64", kind .. ".packets", "Packets in all ranges")
end
field("uint64", "status.behind", "Packets behind that")
field("string", "status.name", "Name of the receiver")
field("none", "topics.entry", "Name")
field("uint32", "topics.id", "Topic")
field("uint8", "topics.name_size", "Size")
field("string", "topics.name", "Name")

-- Analysis of this packet from the packets before it in the capture.
field("uint32", "analysis.missing", "Packets missing before this one")
field("uint32", "analysis.missing_first", "The first of them, low half")
field("uint64", "analysis.outstanding", "Packets missing up to here")
field("bool", "analysis.late", "Late: one with a higher number came before", base.NONE)
field("framenum", "analysis.repeats", "Repeats what is in frame", base.NONE)
field("framenum", "analysis.nak_frame", "Asked for in frame", base.NONE)
field("relative_time", "analysis.nak_time", "Time since it was asked for")
field("uint32", "analysis.nak_captured", "Of the packets asked for, captured before")
field("framenum", "analysis.heartbeat_frame", "Echoes the heartbeat in frame", base.NONE)
field("relative_time", "analysis.rtt", "Round trip as captured, less the time held")

-- --------------------------------------------------------------------------------------------------------- experts

local experts = {}

local function warn_of(name, text, group, severity)
    experts[name] = ProtoExpert.new("llm.expert." .. name, text, expert.group[group], expert.severity[severity])
end

warn_of("malformed", "Malformed: receivers count it and drop it", "MALFORMED", "ERROR")
warn_of("version", "Unknown version", "PROTOCOL", "WARN")
warn_of("type", "Unknown type", "PROTOCOL", "WARN")
warn_of("frame", "Unknown frame: the rest of the packet cannot be read", "MALFORMED", "ERROR")
warn_of("truncated", "The capture has only a part of this packet", "UNDECODED", "NOTE")
warn_of("foreign", "Another session under the same tag", "PROTOCOL", "WARN")
warn_of("broken", "Does not continue the packet before", "MALFORMED", "ERROR")
warn_of("missing", "Packets are missing", "SEQUENCE", "WARN")
warn_of("late", "Out of order", "SEQUENCE", "NOTE")
warn_of("repeated", "Sent again, or doubled on the way", "SEQUENCE", "NOTE")
warn_of("nak", "Packets are requested again", "SEQUENCE", "NOTE")
warn_of("gone", "Packets are not in the history any more", "SEQUENCE", "WARN")
warn_of("unrepaired", "Packets of unreliable topics are not sent again", "SEQUENCE", "NOTE")
warn_of("passed", "Packets of topics without history are not sent to who came later", "SEQUENCE", "CHAT")
warn_of("pending", "Receivers are asked to wait with their NAKs", "SEQUENCE", "NOTE")
warn_of("end", "The session ends", "SEQUENCE", "NOTE")
warn_of("held", "The transmitter is blocked: it waits for reports", "SEQUENCE", "NOTE")
warn_of("lost", "The receiver has lost packets since its report before", "SEQUENCE", "WARN")
warn_of("dropped", "The receiver's host has dropped packets since the report before", "SEQUENCE", "WARN")
warn_of("leaving", "The receiver leaves", "SEQUENCE", "CHAT")

-- -------------------------------------------------------------------------------------------------------- sessions

-- Sessions by tag. Filled while the capture is read for the first time; the results for a frame are stored with the frame.
local sessions, analyses, expected_next

local function forget()
    sessions, analyses, expected_next = {}, {}, {}
end

forget()
llm.init = forget

local function session_of(tag)
    local session = sessions[tag]
    if session == nil then
        -- carried: message that continues, by the packet of the continuation. seen: frames, by packet number. naks: the latest
        -- ones. clocks: heartbeats, by their time. reports: counters, by receiver.
        session = { topics = {}, carried = {}, seen = {}, naks = {}, nak_next = 1, clocks = {}, reports = {},
            outstanding = 0 }
        sessions[tag] = session
    end
    return session
end

-- Distance of `low` from another low half, in either direction.
local function distance(low, from)
    local distance_to = (low - from) % WRAP
    return distance_to < WRAP / 2 and distance_to or distance_to - WRAP
end

-- Returns the number near a known one that has this low half; nil if none is known.
local function absolute(known, low)
    local number = known and known + distance(low, known % WRAP)
    return number and number >= 0 and number or nil
end

local function uint64(number)
    return UInt64.new(number % WRAP, math.floor(number / WRAP) % WRAP)
end

-- nil beyond exact integers: no session gets there, but forged bytes may.
local function exact(number)
    local value = number:tonumber()
    return value >= 0 and value < EXACT and value or nil
end

local function text_of(number)
    return string.format("%.0f", number)
end

local function counted(number, noun)
    return text_of(number) .. " " .. noun .. (number == 1 and "" or "s")
end

-- By the whole number if a heartbeat had it, else by the low half.
local function packet_text(session, low)
    local number = absolute(session.lead, low)
    return number and text_of(number) or "low " .. text_of(low)
end

local function topic_text(session, topic)
    return session.topics[topic] and '"' .. session.topics[topic] .. '"' or "topic " .. text_of(topic)
end

-- ------------------------------------------------------------------------------------------------------- the cursor

-- A packet being dissected, p: tvb, raw (its bytes), at, stop (end of the captured bytes), whole (end of the packet), tree,
-- values (by the field's name), session, info (texts of the column), found (the analysis from the packets before it).

-- Replaces a tree when a packet is only tried.
local nothing = {}
setmetatable(nothing, { __index = function() return function() return nothing end end })

-- Wireshark counts items of equal text: numbers belong into fields and the info column.
local function note(p, name, text, item)
    item = item or p.tree
    if text then
        item:add_proto_expert_info(experts[name], text)
    else
        item:add_proto_expert_info(experts[name])
    end
end

local function fault(p, name, text)
    p.fault = true
    table.insert(p.info, "[" .. text .. "]")
    note(p, name, text)
    return false
end

-- Returns the next bytes; nil if the packet, or its captured part, ends before.
local function take(p, bytes)
    local at = p.at
    if bytes <= p.stop - at then
        p.at = at + bytes
        return p.tvb:range(at, bytes)
    end
    p.at = p.stop
    if bytes > p.whole - at then
        fault(p, "malformed", "ends before it should")
    else
        p.cut = true
    end
    return nil
end

local function generated(tree, name, value)
    return tree:add(fields[name], value):set_generated()
end

local function integer_take(p, step, tree)
    local range = take(p, step.bytes)
    local item
    if range == nil then
        return nil
    end
    item = (tree or p.tree):add_le(fields[step.name], range)
    for _, bit in ipairs(step.bits or {}) do
        item:add_le(fields[step.name .. "." .. bit[1]], range)
    end
    p.values[step.name] = step.bytes == 8 and range:le_uint64() or range:le_uint()
    return range
end

local function bit_is_set(value, mask)
    return math.floor(value / mask) % 2 == 1
end

local function unused(bytes)
    return function(p)
        local range = take(p, bytes)
        return range and p.tree:add(fields.unused, range)
    end
end

-- Dissects integers and functions one after the other; false if the packet ends early or contradicts itself.
local function layout_read(p, layout)
    for _, step in ipairs(layout) do
        local done = type(step) == "function" and step(p) or type(step) == "table" and integer_take(p, step)
        if not done then
            return false
        end
    end
    return true
end

-- ------------------------------------------------------------------------------------------- what several types have

-- Section 9: over UDP a family, an address and a port.
local function address_show(p, range)
    local family, bytes = range(0, 1):uint(), range:len()
    local item = p.tree:add(fields.address, range)
    local host, title
    if not (family == 4 and bytes == 7 or family == 6 and bytes == 19) then
        return range:bytes():tohex()
    end
    title = family == 4 and "ipv4" or "ipv6"
    host = range(1, bytes - 3)
    item:add(fields["address.family"], range(0, 1))
    item:add(fields["address." .. title], host)
    item:add(fields["address.port"], range(bytes - 2, 2))
    host = family == 4 and tostring(host:ipv4()) or "[" .. tostring(host:ipv6()) .. "]"
    item:set_text("Address: " .. host .. ":" .. range(bytes - 2, 2):uint())
    return host .. ":" .. range(bytes - 2, 2):uint()
end

local function address_size(p)
    local range = take(p, 1)
    if range == nil then
        return false
    end
    p.address_size = range:uint()
    p.tree:add(fields["address.size"], range)
    return p.address_size <= ADDRESS_MAX or fault(p, "malformed", "an address of " .. p.address_size .. " bytes")
end

local function address(p)
    local range = p.address_size > 0 and take(p, p.address_size)
    if p.address_size > 0 and not range then
        return false
    end
    p.address = range and address_show(p, range) or "no address"
    return true
end

local function range_count(kind)
    return function(p)
        local range = take(p, 2)
        if range == nil then
            return false
        end
        p.range_count = range:le_uint()
        p.tree:add_le(fields[kind .. ".ranges"], range)
        return p.range_count <= RANGES_MAX or fault(p, "malformed", p.range_count .. " ranges")
    end
end

local function range_show(p, kind, range)
    local first, count = range(0, 4):le_uint(), range(4, 4):le_uint()
    local item = p.tree:add(fields[kind .. ".range"], range)
    local number = absolute(p.session.lead, first)
    local text = packet_text(p.session, first)
    item:add_le(fields[kind .. ".first"], range(0, 4))
    item:add_le(fields[kind .. ".count"], range(4, 4))
    if number and count > 0 then
        generated(item, kind .. ".first_packet", uint64(number))
        generated(item, kind .. ".last_packet", uint64(number + count - 1))
    end
    if count ~= 1 then
        text = text .. ".." .. (number and text_of(number + count - 1) or text_of((first + count - 1) % WRAP))
    end
    item:set_text(counted(count, "packet") .. ": " .. text)
    table.insert(p.ranges, { first = first, count = count, text = text })
end

local function ranges(kind)
    return function(p)
        p.ranges, p.packets = {}, 0
        for _ = 1, p.range_count do
            local range = take(p, 8)
            if range == nil then
                return false
            end
            range_show(p, kind, range)
            p.packets = p.packets + p.ranges[#p.ranges].count
        end
        generated(p.tree, kind .. ".packets", uint64(p.packets))
        return true
    end
end

local function ranges_text(p)
    local texts = {}
    for i = 1, math.min(#p.ranges, 4) do
        texts[i] = p.ranges[i].text
    end
    return counted(p.packets, "packet") .. " " .. table.concat(texts, ", ") .. (#p.ranges > 4 and ", ..." or "")
end

-- -------------------------------------------------------------------------------------------------------- analysis

local function duration(seconds)
    local whole = math.floor(seconds)
    return NSTime.new(whole, math.floor((seconds - whole) * 1e9 + 0.5))
end

-- Returns the latest NAK for this packet.
local function nak_find(session, low)
    for back = 1, math.min(#session.naks, NAKS_MAX) do
        local nak = session.naks[(session.nak_next - 1 - back) % NAKS_MAX + 1]
        for _, range in ipairs(nak.ranges) do
            if (low - range.first) % WRAP < range.count then
                return nak
            end
        end
    end
    return nil
end

-- Packets from the expected number up to `low` are missing, whether data or a heartbeat reveals it.
local function analysis_skip(session, low, found)
    local distance_to = session.next and distance(low, session.next) or 0
    if distance_to > 0 then
        found.missing, found.missing_first = distance_to, session.next
        session.outstanding = session.outstanding + distance_to
    end
    if session.next == nil or distance_to > 0 then
        session.next = low
    end
end

local function analysis_data(p, low, found)
    local session, nak = p.session, nil
    session.base = session.base or low
    analysis_skip(session, low, found)
    found.repeats = session.seen[(low - session.base) % WRAP]
    if low == session.next then
        session.next = (low + 1) % WRAP
    elseif found.repeats == nil then
        found.late = true
        session.outstanding = math.max(session.outstanding - 1, 0)
    end
    if found.repeats == nil then
        session.seen[(low - session.base) % WRAP] = p.pinfo.number
    end
    if found.repeats or found.late then
        nak = nak_find(session, low)
        found.nak_frame = nak and nak.frame
        found.nak_time = nak and p.pinfo.rel_ts - nak.time
    end
    found.outstanding = (found.missing or found.late) and session.outstanding
end

local function analysis_heartbeat(p, found)
    local lead, clock = p.values["heartbeat.lead"], p.values["heartbeat.clock"]
    local session = p.session
    session.lead = exact(lead) or session.lead
    session.messages = exact(p.values["heartbeat.messages"]) or session.messages
    session.clocks[clock:tohex()] = { frame = p.pinfo.number, time = p.pinfo.rel_ts }
    analysis_skip(session, lead:lower(), found)
    found.outstanding = found.missing and session.outstanding
end

-- Requested packets that passed here were lost after this point of the network; others, before it.
local function captured_before(session, ranges)
    local captured, left = 0, REQUESTED_MAX
    for _, range in ipairs(ranges) do
        local last = math.min(range.count, left) - 1
        for at = 0, last do
            captured = captured + (session.seen[(range.first + at - session.base) % WRAP] and 1 or 0)
        end
        left = left - last - 1
    end
    return captured
end

local function analysis_nak(p)
    p.found.captured = p.session.base and captured_before(p.session, p.ranges)
    p.session.naks[p.session.nak_next] = { frame = p.pinfo.number, time = p.pinfo.rel_ts, ranges = p.ranges }
    p.session.nak_next = p.session.nak_next % NAKS_MAX + 1
end

-- Counters only grow: shows their increase.
local function analysis_report(p, found)
    local receiver = p.values.receiver:tohex()
    local before = p.session.reports[receiver] or { lost = 0, dropped = 0 }
    local now = { lost = p.values["status.lost"], dropped = p.values["status.dropped"] }
    p.session.reports[receiver] = now
    found.lost = now.lost > before.lost and now.lost - before.lost or nil
    found.dropped = now.dropped > before.dropped and now.dropped - before.dropped or nil
end

local function analysis_status(p, found)
    local heartbeat = p.session.clocks[p.values["status.echo"]:tohex()]
    if heartbeat then
        found.heartbeat_frame = heartbeat.frame
        found.rtt = p.pinfo.rel_ts - heartbeat.time - p.values["status.hold"] / 1e9
    end
end

local function analysis_texts(p, found)
    if found.missing then
        local text = counted(found.missing, "packet") .. " missing from " .. packet_text(p.session, found.missing_first) .. " on"
        note(p, "missing", nil, generated(p.tree, "analysis.missing", found.missing))
        generated(p.tree, "analysis.missing_first", found.missing_first)
        table.insert(p.info, "[" .. text .. "]")
    end
    if found.repeats then
        note(p, "repeated", nil, generated(p.tree, "analysis.repeats", found.repeats))
        table.insert(p.info, "[repeats frame " .. found.repeats .. "]")
    end
    if found.late then
        note(p, "late", nil, generated(p.tree, "analysis.late", true))
        table.insert(p.info, "[late]")
    end
    for _, name in ipairs { "lost", "dropped" } do
        if found[name] then
            note(p, name)
        end
    end
    if found.captured then
        generated(p.tree, "analysis.nak_captured", found.captured)
        table.insert(p.info, "[" .. text_of(found.captured) .. " of them captured before]")
    end
    if found.nak_frame then
        table.insert(p.info, "[asked for in frame " .. found.nak_frame .. "]")
    end
end

-- The results of the first pass are shown each time.
local function analysis_show(p)
    local found = p.found
    analysis_texts(p, found)
    for _, name in ipairs { "nak_frame", "heartbeat_frame" } do
        if found[name] then
            generated(p.tree, "analysis." .. name, found[name])
        end
    end
    for _, name in ipairs { "nak_time", "rtt" } do
        if found[name] then
            generated(p.tree, "analysis." .. name, duration(found[name]))
        end
    end
    if found.outstanding then
        generated(p.tree, "analysis.outstanding", uint64(found.outstanding))
    end
end

-- ---------------------------------------------------------------------------------------------------------- frames

-- By first byte: the function that reads the rest of the frame that began at `at`; false if nothing after it can be read.
local frames = {}

local function frame_none(p, at)
    p.at = at
    return fault(p, "frame", string.format("unknown frame 0x%02x", p.tvb:range(at, 1):uint()))
end

local function message_number(p, low)
    return absolute(p.session.messages, low % WRAP) or low % WRAP
end

-- Leaves a note for the packet in which the message continues.
local function message_carry(p, message)
    if message.left > 0 and p.learns then
        p.session.carried[(p.values.seq + 1) % WRAP] = message
    end
    if message.left > 0 then
        p.goes_on = message.number
    end
end

-- Items of messages take most of the time: omits those that are neither shown nor used by a filter.
local MESSAGE_FIELDS = { "message", "message.size", "message.number", "message.topic", "message.topic_name", "message.data",
                         "message.left" }

local function message_wants(p)
    local wants = { text = p.tree.visible }
    for _, name in ipairs(MESSAGE_FIELDS) do
        local wanted = p.tree ~= nothing and p.tree:referenced(fields[name])
        wants[name] = wanted
        wants.any = wants.any or wanted
    end
    return wants
end

local function message_text(p, message, here)
    return "Message " .. text_of(message.number) .. ", " .. topic_text(p.session, p.topic) .. ", " .. counted(message.size, "byte")
        .. (message.left > 0 and ", continues: " .. here .. " here" or "")
end

local function message_show(p, at, head, message, shown)
    local wants, name = p.wants, p.session.topics[p.topic]
    local item = p.tree:add(fields.message, p.tvb:range(at, head + shown))
    if wants.text then
        item:set_text(message_text(p, message, message.size - message.left))
    end
    if wants["message.size"] then
        item:add(fields["message.size"], p.tvb:range(at, head), message.size)
    end
    if wants["message.number"] then
        generated(item, "message.number", uint64(message.number))
    end
    if wants["message.topic"] then
        generated(item, "message.topic", p.topic)
    end
    if wants["message.topic_name"] and name then
        generated(item, "message.topic_name", name)
    end
    if wants["message.data"] and shown > 0 then
        item:add(fields["message.data"], p.tvb:range(at + head, shown))
    end
    if message.left > 0 then
        generated(item, "message.left", message.left)
    end
end

local function message(p, at, size)
    local head, here = p.at - at, math.min(size, p.whole - p.at)
    local shown = math.min(here, p.stop - p.at)
    local message = { size = size, left = size - here, number = message_number(p, p.values.number + p.messages), topic = p.topic,
                      frame = p.pinfo.number }
    if size > MESSAGE_MAX then
        return fault(p, "malformed", "a message of " .. counted(size, "byte"))
    end
    if p.wants.any then
        message_show(p, at, head, message, shown)
    end
    p.at = p.at + shown
    p.messages = p.messages + 1
    p.topics[p.topic] = true
    p.cut = p.cut or shown < here
    message_carry(p, message)
    return true
end

for code = 0x00, 0x7f do
    frames[code] = function(p, at) return message(p, at, code) end
end
for code = 0x80, 0xbf do
    frames[code] = function(p, at)
        local low = take(p, 1)
        return low and message(p, at, (code - 0x80) * 256 + low:uint())
    end
end
frames[0xe1] = function(p, at)
    local size = take(p, 4)
    return size and message(p, at, size:le_uint())
end

local function topic(p, at, id)
    p.topic = id
    p.tree:add(fields.topic, p.tvb:range(at, p.at - at), id):append_text(" " .. topic_text(p.session, id))
    return true
end

for code = 0xc0, 0xdf do
    frames[code] = function(p, at)
        local low = take(p, 1)
        return low and topic(p, at, (code - 0xc0) * 256 + low:uint())
    end
end
frames[0xe2] = function(p, at)
    local id = take(p, 4)
    return id and topic(p, at, id:le_uint())
end

-- A run of padding is shown as one item.
frames[0xe0] = function(p, at)
    while p.at < p.stop and p.tvb:range(p.at, 1):uint() == 0xe0 do
        p.at = p.at + 1
    end
    p.tree:add(fields.padding, p.tvb:range(at, p.at - at)):set_text("Padding, " .. counted(p.at - at, "byte"))
    return true
end

for code = 0xe3, 0xef do
    frames[code] = frame_none
end

-- From f0 on a frame has its size: unknown ones can be skipped.
local function sized(p)
    local size = take(p, 2)
    local bytes = size and (size:le_uint() == 0 and true or take(p, size:le_uint()))
    if not bytes then
        return nil
    end
    return size, size:le_uint() > 0 and bytes or nil
end

-- A topic's name ends at a zero byte; its flags follow.
local function name_add(item, key, bytes)
    local zero = bytes:raw():find("\0", 1, true)
    local name = zero == 1 and "" or (zero and bytes(0, zero - 1) or bytes):string(ENC_UTF_8)
    item:add(fields[key], bytes, name)
    if zero and zero < bytes:len() then
        item:add(fields["topic.flags"], bytes(zero, 1))
    end
    return name
end

frames[0xf0] = function(p, at)
    local size, bytes = sized(p)
    local id, name, item
    if size == nil then
        return false
    elseif bytes == nil or bytes:len() < 5 then
        return fault(p, "malformed", "an announcement without a name")
    end
    id = bytes(0, 4):le_uint()
    item = p.tree:add(fields.announcement, p.tvb:range(at, p.at - at))
    item:add_le(fields["announcement.size"], size)
    item:add_le(fields["announcement.topic"], bytes(0, 4))
    name = name_add(item, "announcement.name", bytes(4))
    item:set_text("Announcement: topic " .. text_of(id) .. ' is "' .. name .. '"')
    if p.learns then
        p.session.topics[id] = name
    end
    table.insert(p.announced, name)
    return true
end

-- By type of a property: bytes of its value, if constant, its name, and its reader.
local property_types = {
    [1] = { size = 4, name = "int32", text = function(value) return tostring(value:le_int()) end },
    [2] = { size = 8, name = "int64", text = function(value) return tostring(value:le_int64()) end },
    [3] = { size = 8, name = "double", text = function(value) return string.format("%.17g", value:le_float()) end },
    [4] = { name = "bytes", text = function(value) return '"' .. value:string() .. '"' end },
}

-- Dissects the property at `at`; returns the position of the next one, nil if there is none that can be read.
local function property(tree, bytes, at)
    local code, kind, size, head, item, value
    if at + 3 > bytes:len() then
        return nil
    end
    code, kind, head = bytes(at, 2):le_uint(), property_types[bytes(at + 2, 1):uint()], 3
    if kind == nil or (kind.size == nil and at + 5 > bytes:len()) then
        return nil
    end
    size = kind.size
    if size == nil then
        size, head = bytes(at + 3, 2):le_uint(), 5
    end
    if at + head + size > bytes:len() then
        return nil
    end
    item = tree:add(fields["property"], bytes(at, head + size))
    item:add_le(fields["property.code"], bytes(at, 2))
    item:add(fields["property.type"], bytes(at + 2, 1))
    value = size > 0 and bytes(at + head, size) or nil
    if value ~= nil then
        item:add(fields["property.value"], value)
    end
    item:set_text(string.format("Property %d, %s: %s", code, kind.name, value == nil and '""' or kind.text(value)))
    return at + head + size
end

frames[0xf1] = function(p, at)
    local size, bytes = sized(p)
    local item, count, next_at
    if size == nil then
        return false
    end
    item = p.tree:add(fields.attributes, p.tvb:range(at, p.at - at))
    item:add_le(fields["attributes.size"], size)
    if bytes == nil or bytes:len() < 4 then
        return true
    end
    item:add_le(fields["attributes.label"], bytes(0, 4))
    item:set_text(string.format("Attributes: label 0x%08x", bytes(0, 4):le_uint()))
    count = bytes:len() > 4 and bytes(4, 1):uint() or 0
    if count > 32 or 5 + count > bytes:len() then
        return true
    end
    if count > 0 then
        item:add(fields["attributes.bitmap"], bytes(5, count))
        item:append_text(", bitmap of " .. counted(count, "byte"))
    end
    next_at = 5 + count
    while next_at ~= nil and next_at < bytes:len() do
        next_at = property(item, bytes, next_at)
    end
    return true
end

frames[0xf2] = function(p, at)
    local size, bytes = sized(p)
    local item
    if size == nil then
        return false
    end
    item = p.tree:add(fields.summary, p.tvb:range(at, p.at - at))
    item:add_le(fields["summary.size"], size)
    if bytes == nil or bytes:len() < 12 then
        return true
    end
    item:add_le(fields["summary.any"], bytes(0, 4))
    item:add_le(fields["summary.all"], bytes(4, 4))
    item:add_le(fields["summary.end"], bytes(8, 2))
    item:add_le(fields["summary.count"], bytes(10, 2))
    item:set_text("Summary of " .. counted(bytes(10, 2):le_uint(), "message"))
    return true
end

frames[0xf3] = function(p, at)
    local size, bytes = sized(p)
    local item, count
    if size == nil then
        return false
    elseif bytes == nil or bytes:len() < 4 then
        return fault(p, "malformed", "skipped numbers without a count")
    end
    count = bytes(0, 4):le_uint()
    if count < 1 or count > 65536 or p.at < p.stop then
        return fault(p, "malformed", "skipped numbers that no packet can have")
    end
    item = p.tree:add(fields.numbers, p.tvb:range(at, p.at - at))
    item:add_le(fields["numbers.size"], size)
    item:add_le(fields["numbers.count"], bytes(0, 4))
    item:set_text("Skips " .. counted(count, "message number"))
    table.insert(p.info, "skips " .. counted(count, "number"))
    return true
end

for code = 0xf4, 0xff do
    frames[code] = function(p, at)
        local size, bytes = sized(p)
        local item
        if size == nil then
            return false
        end
        item = p.tree:add(fields.skipped, p.tvb:range(at, p.at - at))
        item:set_text(string.format("Extension frame 0x%02x, %s", code, counted(size:le_uint(), "byte")))
        item:add(fields["skipped.code"], p.tvb:range(at, 1))
        item:add_le(fields["skipped.size"], size)
        if bytes then
            item:add(fields["skipped.bytes"], bytes)
        end
        return true
    end
end

-- ------------------------------------------------------------------------------------------------------------ DATA

local function continued_check(p, first, body, message)
    local fits = message.left == first or message.left > first and first == body
    if not fits then
        table.insert(p.info, "[does not continue the packet before]")
        note(p, "broken")
    end
    return fits
end

local function continued_show(p, first, message)
    local shown = math.min(first, p.stop - p.at)
    local item = p.tree:add(fields.continued, p.tvb:range(p.at, shown))
    local left = message and message.left - first
    local number = message and message.number or message_number(p, p.values.number - 1)
    local text = left and (left > 0 and "continues" or "ends") or "goes on"
    table.insert(p.info, text_of(number) .. " " .. text)
    item:set_text("Message " .. text_of(number) .. " " .. text .. ": " .. counted(first, "byte")
        .. (message and " of " .. text_of(message.size) or ", begun before"))
    generated(item, "continued.number", uint64(number))
    if message then
        generated(item, "continued.size", message.size)
        generated(item, "continued.topic", message.topic)
        generated(item, "continued.frame", message.frame)
    end
    if left and left > 0 then
        generated(item, "continued.left", left)
    end
    item:add(fields["continued.data"], take(p, shown))
    p.cut = p.cut or shown < first
end

-- The bytes before `first` belong to a message that began in an earlier packet, which may be missing in the capture.
local function continued(p, first, body)
    local message = p.session.carried[p.values.seq]
    if message and not continued_check(p, first, body, message) then
        message = nil
    end
    if first > 0 and p.at < p.stop then
        continued_show(p, first, message)
    end
    if message and message.left > first then
        message_carry(p, { size = message.size, left = message.left - first, number = message.number, topic = message.topic,
                           frame = message.frame })
    end
end

local function data_frames(p)
    local raw = p.raw
    while p.at < p.stop and not p.fault do
        local at = p.at
        p.at = at + 1
        if not frames[raw:byte(at + 1)](p, at) then
            p.at = at
            break
        end
    end
    if p.fault and p.at < p.stop then
        p.tree:add(fields.unreadable, p.tvb:range(p.at, p.stop - p.at))
        p.at = p.stop
    end
end

local function data_info(p)
    local first = message_number(p, p.values.number)
    local names = {}
    for id in pairs(p.topics) do
        table.insert(names, topic_text(p.session, id))
    end
    table.sort(names)
    if p.messages > 0 then
        table.insert(p.info, counted(p.messages, "message") .. " " .. text_of(first)
            .. (p.messages > 1 and ".." .. text_of(first + p.messages - 1) or "")
            .. " on " .. (#names > 3 and counted(#names, "topic") or table.concat(names, ", ")))
    end
    if #p.announced > 0 then
        table.insert(p.info, 'announces "' .. table.concat(p.announced, '", "', 1, math.min(#p.announced, 3))
            .. (#p.announced > 3 and '", ...' or '"'))
    end
    if p.goes_on and p.messages > 0 then
        table.insert(p.info, text_of(p.goes_on) .. " goes on")
    end
end

local function data(p)
    if not layout_read(p, { FIRST }) then
        return
    end
    local first, body = p.values.first, p.whole - p.at
    local number = absolute(p.session.lead, p.values.seq)
    p.topic, p.messages, p.topics, p.announced, p.wants = 0, 0, {}, {}, message_wants(p)
    table.insert(p.info, packet_text(p.session, p.values.seq))
    if first > body then
        return fault(p, "malformed", "the first frame starts behind the end")
    end
    if p.learns then
        analysis_data(p, p.values.seq, p.found)
    end
    if number then
        generated(p.tree, "packet", uint64(number))
    end
    continued(p, first, body)
    data_frames(p)
    generated(p.tree, "messages", p.messages)
    data_info(p)
    return not p.fault
end

-- --------------------------------------------------------------------------------------------------------- control

-- The tag is the low half of the session. The first session heard under a tag is followed, others are foreign.
local function session_check(p)
    local id = p.values.session:tohex()
    if p.values.session:lower() ~= p.values.tag then
        return fault(p, "malformed", "the session is not that of the tag")
    end
    if p.session.id and p.session.id ~= id then
        p.learns = false
        note(p, "foreign")
    elseif p.learns then
        p.session.id = id
    end
    return true
end

local function ordered(...)
    local numbers = { ... }
    for i = 2, #numbers do
        if numbers[i] < numbers[i - 1] then
            return false
        end
    end
    return true
end

local function heartbeat_check(p)
    local v = p.values
    local limit = UInt64.new(0, 0x80000000)
    if not (ordered(v["heartbeat.start"], v["heartbeat.trail"], v["heartbeat.lead"]) and v["heartbeat.lead"] < limit and
            v["heartbeat.messages"] < limit) then
        return fault(p, "malformed", "start, trail and lead are not in order, or beyond 2^63")
    end
    if p.learns then
        analysis_heartbeat(p, p.found)
    end
    return true
end

-- Section 7.3: position of the first unacknowledged message, and the assured topics.
local ASSURED = {
    integer("heartbeat.kept", 8, "Unacknowledged messages start here or later"),
    integer("heartbeat.kept_messages", 8, "The first message that starts there or later"),
    integer("heartbeat.assured", 1, "Assured topics"),
}
local ASSURED_TOPIC = integer("heartbeat.assured_topic", 4, "Assured topic")

local function assured(p)
    local v = p.values
    if not bit_is_set(v["heartbeat.flags"], 8) then
        return true
    end
    if not layout_read(p, ASSURED) then
        return false
    end
    if v["heartbeat.assured"] > 16 or not ordered(v["heartbeat.trail"], v["heartbeat.kept"], v["heartbeat.lead"]) or
            not ordered(v["heartbeat.kept_messages"], v["heartbeat.messages"]) then
        return fault(p, "malformed", "more than 16 assured topics, or unacknowledged messages outside of trail and lead")
    end
    for _ = 1, v["heartbeat.assured"] do
        if not integer_take(p, ASSURED_TOPIC) then
            return false
        end
    end
    return true
end

-- Section 4.5: the stream that the session continues.
local STREAM = {
    integer("heartbeat.stream", 8, "Stream", { base = base.HEX }),
    integer("heartbeat.base", 8, "Base: number in the stream of message 0 of the session"),
    integer("heartbeat.term", 4, "Term"),
}

local function stream(p)
    local v = p.values
    if not bit_is_set(v["flags"], 1) then
        return true
    end
    if not layout_read(p, STREAM) then
        return false
    end
    if v["heartbeat.stream"] == UInt64.new(0, 0) or
            not (v["heartbeat.base"] + v["heartbeat.messages"] < UInt64.new(0, 0x80000000)) then
        return fault(p, "malformed", "the stream is 0, or numbers in it are beyond 2^63")
    end
    return true
end

local function heartbeat_summarize(p)
    local v = p.values
    local flags = v["heartbeat.flags"]
    local texts = { "lead " .. tostring(v["heartbeat.lead"]), "trail " .. tostring(v["heartbeat.trail"]),
                    counted(v["heartbeat.receivers"], "receiver"), "answers to " .. p.address }
    table.insert(p.info, table.concat(texts, ", "))
    for _, flag in ipairs { { 1, "END", "end" }, { 2, "YOUNG" }, { 4, "HELD", "held" }, { 8, "ASSURED" } } do
        if bit_is_set(flags, flag[1]) then
            table.insert(p.info, flag[2])
            if flag[3] then
                note(p, flag[3])
            end
        end
    end
    if v["heartbeat.term"] then
        table.insert(p.info, string.format("stream %s, term %d, from %s", v["heartbeat.stream"]:tohex(), v["heartbeat.term"],
            tostring(v["heartbeat.base"])))
    end
    if flags >= 16 then
        table.insert(p.info, string.format("of %d receivers one reports by packets", 2 ^ math.floor(flags / 16)))
    end
end

local function nak_summarize(p)
    table.insert(p.info, "asks for " .. ranges_text(p) .. ", to " .. p.address)
    note(p, "nak")
    if p.learns then
        analysis_nak(p)
    end
end

local REASONS = { [1] = "GONE", [2] = "PENDING", [3] = "UNREPAIRED", [4] = "PASSED" }

local function reject_summarize(p)
    local reason = p.values["reject.reason"]
    table.insert(p.info, (REASONS[reason] or "reason " .. reason) .. ": " .. ranges_text(p) .. ", trail "
        .. tostring(p.values["reject.trail"]))
    if REASONS[reason] then
        note(p, REASONS[reason]:lower())
    end
end

local function status_check(p)
    local v = p.values
    if not ordered(v["status.next"], v["status.highest"]) then
        return fault(p, "malformed", "next is beyond the highest packet")
    end
    generated(p.tree, "status.behind", v["status.highest"] - v["status.next"])
    if p.learns then
        analysis_status(p, p.found)
        analysis_report(p, p.found)
    end
    return true
end

-- Section 7.3: the messages that a receiver acknowledges, and the assured topics that it accepts.
local ACKNOWLEDGEMENT = {
    integer("status.held_from", 8, "Held from this message on"),
    integer("status.held_next", 8, "To the one before this"),
    integer("status.accepts", 2, "Assured topics that it accepts, by their place", { base = base.HEX }),
    integer("status.name_size", 1, "Bytes of name"),
}

local function acknowledgement(p)
    local v = p.values
    if not bit_is_set(v["status.flags"], 4) then
        return true
    end
    if not layout_read(p, ACKNOWLEDGEMENT) then
        return false
    end
    if v["status.name_size"] > 31 or not ordered(v["status.held_from"], v["status.held_next"]) then
        return fault(p, "malformed", "a name of more than 31 bytes, or what is held ends before it begins")
    end
    local name = v["status.name_size"] > 0 and take(p, v["status.name_size"])
    if name then
        p.tree:add(fields["status.name"], name)
    end
    return v["status.name_size"] == 0 or name ~= nil
end

-- Section 7.4: the bottleneck of the receiver, and its figures.
local LIMITS = { [0] = "nothing", [1] = "its application", [2] = "its receive buffer", [3] = "the network" }
local LIMITED = {
    integer("status.limit", 1, "Limited by", { values = LIMITS }),
    integer("status.limit_time", 4, "Over, ms"),
    integer("status.limit_away", 4, "The application was away, ms"),
    integer("status.limit_away_most", 4, "At most at once, us"),
    integer("status.limit_packets", 4, "Packets that came"),
    integer("status.limit_missed", 4, "Packets found missing"),
    integer("status.limit_dropped", 4, "Packets that the host dropped, at most"),
}

local function limited(p)
    if not bit_is_set(p.values["status.flags"], 8) then
        return true
    end
    return layout_read(p, LIMITED)
end

local function status_summarize(p)
    local v = p.values
    if bit_is_set(v["status.flags"], 4) then
        table.insert(p.info, "holds to " .. tostring(v["status.held_next"]))
    end
    table.insert(p.info, "next " .. tostring(v["status.next"]) .. ", behind by " .. tostring(v["status.highest"] - v["status.next"]))
    for _, name in ipairs { "lost", "dropped" } do
        if v["status." .. name] > 0 then
            table.insert(p.info, name .. " " .. text_of(v["status." .. name]))
        end
    end
    if bit_is_set(v["status.flags"], 1) then
        table.insert(p.info, "LEAVING")
        note(p, "leaving")
    end
    if bit_is_set(v["status.flags"], 2) then
        table.insert(p.info, "DONE")
    end
end

local function topics_name(p, id)
    local size = take(p, 1)
    local bytes = size and size:uint() > 0 and take(p, size:uint())
    local name, item
    if size == nil or size:uint() > 0 and not bytes then
        return false
    end
    item = p.tree:add(fields["topics.entry"], p.tvb:range(p.at - 1 - size:uint(), 1 + size:uint()))
    generated(item, "topics.id", id)
    item:add(fields["topics.name_size"], size)
    name = bytes and name_add(item, "topics.name", bytes) or ""
    item:set_text("Topic " .. text_of(id) .. ': "' .. name .. '"')
    if p.learns and name ~= "" then
        p.session.topics[id] = name
    end
    table.insert(p.names, name)
    return true
end

local function topics_names(p)
    local first, count = p.values["topics.first"], p.values["topics.count"]
    p.names = {}
    if first + count > p.values["topics.total"] then
        return fault(p, "malformed", "names of topics beyond the last one")
    end
    for id = first, first + count - 1 do
        if not topics_name(p, id) then
            return false
        end
    end
    return true
end

local function topics_summarize(p)
    table.insert(p.info, counted(#p.names, "name") .. " from topic " .. text_of(p.values["topics.first"]) .. " on, of "
        .. text_of(p.values["topics.total"]) .. (#p.names > 0 and ': "' or "")
        .. table.concat(p.names, '", "', 1, math.min(#p.names, 3)) .. (#p.names > 3 and '", ...' or #p.names > 0 and '"' or ""))
end

local function query_summarize(p)
    table.insert(p.info, "names of topics from " .. text_of(p.values["query.first"]) .. " on, to " .. p.address)
end

-- Section 12.
local JOIN_KINDS = { [1] = "ASK", [2] = "GRANT", [3] = "REFUSE", [4] = "FETCH", [5] = "LATEST", [6] = "TOKEN",
                     [7] = "SEEK", [8] = "OFFER", [9] = "RECALL", [10] = "ABSENT",
                     [11] = "STREAM", [12] = "STREAM_END",
                     [13] = "CANVASS", [14] = "SURVEY", [15] = "BEAT", [16] = "ANSWER", [17] = "DENIAL",
                     [18] = "TAIL_FETCH", [19] = "TAIL", [20] = "HAVE" }
local JOIN_FROM = { [1] = "the oldest", [2] = "messages back", [3] = "ns back", [4] = "message number", [5] = "last value caches" }
local JOIN_REASONS = { [1] = "HISTORY", [2] = "NOT_SENT", [3] = "NOTHING", [4] = "FULL", [5] = "BUSY", [6] = "ENDED" }

-- Section 12.3: a place of a topic (4), a message number (8) and an offset (4).
local function place_show(tree, kind, range)
    tree:add_le(fields[kind .. "_topic"], range(0, 4))
    tree:add_le(fields[kind .. "_number"], range(4, 8))
    tree:add_le(fields[kind .. "_offset"], range(12, 4))
    local offset = range(12, 4):le_uint()
    return "topic " .. text_of(range(0, 4):le_uint()) .. " message " .. tostring(range(4, 8):le_uint64())
        .. (offset > 0 and " byte " .. text_of(offset) or "")
end

local function place_is_before(a, b)
    local topic_a, topic_b = a(0, 4):le_uint(), b(0, 4):le_uint()
    local number_a, number_b = a(4, 8):le_uint64(), b(4, 8):le_uint64()
    if topic_a ~= topic_b then
        return topic_a < topic_b
    end
    return number_a < number_b or number_a == number_b and a(12, 4):le_uint() < b(12, 4):le_uint()
end

local function span_show(p, tree, kind)
    local range = take(p, 32)
    if range == nil then
        return nil
    end
    if not place_is_before(range(0, 16), range(16, 16)) then
        fault(p, "malformed", "a span that ends where it begins, or before")
        return nil
    end
    local item = kind == "join" and tree:add(fields["join.span"], range) or tree
    local from, to = place_show(item, kind .. ".from", range(0, 16)), place_show(item, kind .. ".to", range(16, 16))
    if kind == "join" then
        item:set_text("From " .. from .. " to before " .. to)
    end
    return "from " .. from .. " to before " .. to
end

local join_ranges = ranges("join")

local function join_parts(p)
    if p.values["join.kind"] ~= 5 then
        return join_ranges(p)
    end
    if p.range_count > SPANS_MAX then
        return fault(p, "malformed", p.range_count .. " spans")
    end
    p.spans = {}
    for _ = 1, p.range_count do
        local text = span_show(p, p.tree, "join")
        if text == nil then
            return false
        end
        table.insert(p.spans, text)
    end
    return true
end

local function lvc_span(p)
    p.span = span_show(p, p.tree, "lvc")
    return p.span ~= nil
end

local function lvc_record(p)
    local head = take(p, 18)
    local size = head and head(16, 2):le_uint()
    if head == nil then
        return false
    end
    local bytes = size > 0 and take(p, size)
    local item = p.tree:add(fields["record"], head)
    local text = place_show(item, "record", head(0, 16))
    item:add_le(fields["record.size"], head(16, 2))
    if bytes then
        item:set_len(18 + size)
        item:add(fields["record.data"], bytes)
    end
    item:set_text("Record: " .. topic_text(p.session, head(0, 4):le_uint()) .. ", " .. text .. ", " .. counted(size, "byte"))
    if size == 0 then
        return fault(p, "malformed", "an empty record")
    end
    return bytes ~= nil
end

local function lvc_records(p)
    for _ = 1, p.values["lvc.records"] do
        if not lvc_record(p) then
            return false
        end
    end
    return true
end

local function lvc_summarize(p)
    table.insert(p.info, counted(p.values["lvc.records"], "record") .. " before message " .. tostring(p.values["lvc.number"]) .. ", "
        .. p.span .. ", " .. counted(p.values["lvc.left"], "packet") .. " left")
end

local function join_summarize(p)
    local v = p.values
    local kind = v["join.kind"]
    local text = JOIN_KINDS[kind] or "kind " .. kind
    if kind == 4 or kind == 9 or kind == 10 and p.range_count > 0 then
        text = text .. ": " .. ranges_text(p) .. (kind == 10 and ", says " or ", to ") .. p.address
    elseif kind == 5 then
        text = text .. ": " .. table.concat(p.spans, ", ", 1, math.min(#p.spans, 2)) .. (#p.spans > 2 and ", ..." or "") .. ", to "
            .. p.address
    elseif kind == 6 then
        local reason = JOIN_REASONS[v["join.reason"]]
        text = text .. (reason and ": " .. reason .. ", " .. tostring(v["join.value"]) .. " receivers" or "")
    elseif kind == 8 and v["join.from"] == 0 then
        text = text .. " of what is kept"
    elseif kind == 11 then
        text = text .. ": where does it end? to " .. p.address
    elseif kind == 12 then
        text = text .. ": number " .. tostring(v["join.number"]) .. ", term " .. tostring(v["join.lead"])
    else
        text = text .. ": " .. (JOIN_FROM[v["join.from"]] or "?") .. " " .. tostring(v["join.value"])
    end
    if kind == 2 or kind == 3 or kind == 8 then
        text = text .. ", packet " .. tostring(v["join.packet"]) .. ", message " .. tostring(v["join.number"])
    end
    if kind == 8 or kind == 10 then
        text = text .. ", up to before packet " .. tostring(v["join.lead"])
            .. (v["join.reason"] > 0 and ", " .. (JOIN_REASONS[v["join.reason"]] or "?") or "")
    end
    table.insert(p.info, text)
end

local STANDINGS = { [0] = "fine", "warned", "repaired by unicast only", "suspended", "expelled" }
local THRESHOLDS = { [0] = "none", "NAKs a second", "ppm requested again", "packets of lag", "ns of lag", "ns of silence",
                     "slow receivers", "the operator's order", "bytes of lag", "ns without an acknowledgement" }

local function notice_check(p)
    local v = p.values
    if not (v["notice.lead"] < UInt64.new(0, 0x80000000) and STANDINGS[v["notice.standing"]] and THRESHOLDS[v["notice.threshold"]]) then
        return fault(p, "malformed", "a standing or a threshold that there is not, or lead beyond 2^63")
    end
    return true
end

local function notice_summarize(p)
    local v = p.values
    table.insert(p.info, STANDINGS[v["notice.standing"]] .. ": " .. tostring(v["notice.value"]) .. " "
        .. THRESHOLDS[v["notice.threshold"]] .. ", limit " .. tostring(v["notice.limit"]))
end

-- Section 13. The connection's identity is in the place of a session's.
local REFUSALS = { [1] = "by the application", [2] = "FULL" }
local CLOSINGS = { [1] = "ABANDONED", [2] = "BROKEN", [3] = "UNKNOWN", [4] = "LEFT", [5] = "HEARD" }
field("bytes", "connect.payload", "Payload")

local function connect_payload(p)
    local size = p.values["connect.payload_size"]
    if size > PAYLOAD_MAX then
        return fault(p, "malformed", "a payload of " .. size .. " bytes")
    end
    local range = size > 0 and take(p, size)
    if range then
        p.tree:add(fields["connect.payload"], range)
    end
    return size == 0 or range ~= nil
end

local function connect_summarize(p)
    table.insert(p.info, "from " .. p.address .. ", " .. counted(p.values["connect.payload_size"], "byte") .. " of payload")
end

local function accept_check(p)
    if not (p.values["accept.start"] < UInt64.new(0, 0x80000000)) then
        return fault(p, "malformed", "start is beyond 2^63")
    end
    return true
end

local function accept_summarize(p)
    table.insert(p.info, "from " .. p.address)
end

local function refuse_summarize(p)
    table.insert(p.info, (REFUSALS[p.values["refuse.reason"]] or "reason " .. p.values["refuse.reason"]) .. ", code "
        .. p.values["refuse.code"])
end

local function close_summarize(p)
    table.insert(p.info, CLOSINGS[p.values["close.reason"]] or "reason " .. p.values["close.reason"])
end

-- ----------------------------------------------------------------------------------------------------------- types

-- By packet type: its name, the integers at 8 and 12 of the header where they are used, the layout of the body after the session,
-- and the text for the info column. A layout has integers and functions; a function that finds a contradiction returns false.
local types = {
    [1] = { name = "DATA", header = { SEQ, NUMBER }, body = data },
    [2] = {
        name = "HEARTBEAT",
        header = { integer("heartbeat.lead_low", 4, "Lead, low half"), integer("heartbeat.messages_low", 4, "Messages, low half") },
        layout = {
            integer("heartbeat.lead", 8, "Lead: the next packet, to be sent or recorded"),
            integer("heartbeat.trail", 8, "Trail: the oldest packet that can be repaired"),
            integer("heartbeat.start", 8, "Start: the first packet of the session"),
            integer("heartbeat.messages", 8, "Messages: the first one at lead or later"),
            integer("heartbeat.clock", 8, "Clock of the transmitter (ns)"),
            integer("heartbeat.interval", 4, "The next one follows within (us)"),
            integer("heartbeat.rtt", 4, "Round trip of the group (ns)"),
            integer("heartbeat.receivers", 4, "Receivers known"),
            integer("heartbeat.topics", 4, "Topics announced"),
            integer("heartbeat.report_packets", 4, "Receivers report after packets"),
            integer("heartbeat.flags", 1, "Flags", { base = base.HEX, bits = {
                { "end", 1, "END: no packet at lead or later will come" },
                { "young", 2, "YOUNG: receivers begin at start" },
                { "held", 4, "HELD: it waits for reports before it sends more" },
                { "assured", 8, "ASSURED: it has assured topics" } } }),
            address_size, address, heartbeat_check, assured, stream,
        },
        summarize = heartbeat_summarize,
    },
    [3] = {
        name = "NAK",
        layout = { RECEIVER, unused(1), address_size, range_count("nak"), address, ranges("nak"), TOKEN },
        summarize = nak_summarize,
    },
    [4] = {
        name = "REJECT",
        layout = {
            integer("reject.trail", 8, "Trail: the oldest packet that can be repaired"),
            integer("reject.reason", 1, "Reason", { values = REASONS }),
            unused(1), range_count("reject"), ranges("reject"),
        },
        summarize = reject_summarize,
    },
    [5] = {
        name = "STATUS",
        layout = {
            RECEIVER,
            integer("status.next", 8, "Next: all before was delivered or given up"),
            integer("status.highest", 8, "One past the highest packet known"),
            integer("status.echo", 8, "Clock of the latest heartbeat (ns)"),
            integer("status.hold", 4, "That came before (ns)"),
            integer("status.lost", 4, "Packets lost"),
            integer("status.naks", 4, "NAKs sent"),
            integer("status.dropped", 4, "Packets that its host dropped"),
            integer("status.window_free", 4, "Packets free in the window"),
            integer("status.flags", 1, "Flags", { base = base.HEX, bits = {
                { "leaving", 1, "LEAVING" }, { "done", 2, "DONE: everything up to the end is there" },
                { "acknowledges", 4, "ACKNOWLEDGES" }, { "limited", 8, "LIMITED" },
                { "behind", 16, "BEHIND: it reads late what came long ago" } } }),
            address_size, address, status_check, acknowledgement, limited, TOKEN,
        },
        summarize = status_summarize,
    },
    [6] = {
        name = "TOPICS",
        layout = {
            integer("topics.total", 4, "Topics announced"), integer("topics.first", 4, "First topic"),
            integer("topics.count", 2, "Names"), topics_names,
        },
        summarize = topics_summarize,
    },
    [7] = {
        name = "QUERY",
        layout = { RECEIVER, integer("query.first", 4, "First topic asked for"), address_size, address, TOKEN },
        summarize = query_summarize,
    },
    [8] = {
        name = "JOIN",
        layout = {
            RECEIVER,
            integer("join.kind", 1, "Kind", { values = JOIN_KINDS }),
            integer("join.from", 1, "From", { values = JOIN_FROM }),
            integer("join.reason", 1, "Reason", { values = JOIN_REASONS }),
            address_size, range_count("join"),
            integer("join.topics", 4, "Topics announced"),
            integer("join.value", 8, "Value"),
            integer("join.packet", 8, "Packet to begin with, or the oldest there is"),
            integer("join.number", 8, "Number of the first message there"),
            integer("join.wanted", 8, "Number of the message asked for, or of the first that is live, or packets"),
            integer("join.lead", 8, "Lead: the next packet"),
            address, join_parts, TOKEN,
        },
        summarize = join_summarize,
    },
    [9] = {
        name = "NOTICE",
        layout = {
            RECEIVER,
            integer("notice.decided", 8, "Decided, by the transmitter's clock (ns)"),
            integer("notice.lead", 8, "Lead: of a suspended receiver nothing before is repaired"),
            integer("notice.value", 8, "Figure that decided"),
            integer("notice.limit", 8, "What it reached"),
            integer("notice.lag", 8, "Behind (ns)"),
            integer("notice.silent", 8, "Not heard (ns)"),
            integer("notice.naks", 4, "NAKs a second"),
            integer("notice.asked", 4, "Packets requested again (ppm)"),
            integer("notice.lag_packets", 4, "Packets behind"),
            integer("notice.receivers", 4, "Receivers that have reported"),
            integer("notice.suffering", 4, "Of these, those that suffer"),
            integer("notice.rejoin", 4, "An expelled one may return after (ms)"),
            integer("notice.standing", 1, "Standing", { values = STANDINGS }),
            integer("notice.threshold", 1, "Threshold", { values = THRESHOLDS }),
            notice_check,
        },
        summarize = notice_summarize,
    },
    [10] = {
        name = "CONNECT",
        layout = {
            integer("connect.session", 8, "Session of the transmitter", { base = base.HEX }),
            integer("connect.message_bytes_max", 4, "Takes messages of at most (bytes)"),
            integer("connect.payload_size", 2, "Bytes of payload"),
            unused(1), address_size, address, connect_payload,
        },
        summarize = connect_summarize,
    },
    [11] = {
        name = "ACCEPT",
        layout = {
            integer("accept.session", 8, "Session of the transmitter", { base = base.HEX }),
            integer("accept.start", 8, "First packet of that session"),
            integer("accept.message_bytes_max", 4, "Takes messages of at most (bytes)"),
            address_size, address, accept_check,
        },
        summarize = accept_summarize,
    },
    [12] = {
        name = "REFUSE",
        layout = {
            integer("refuse.code", 2, "Code"),
            integer("refuse.reason", 1, "Reason", { values = REFUSALS }),
        },
        summarize = refuse_summarize,
    },
    [13] = {
        name = "CLOSE",
        layout = {
            integer("close.reason", 1, "Reason", { values = CLOSINGS }), address_size,
            integer("close.next", 8, "Everything before was taken"), address,
        },
        summarize = close_summarize,
    },
    [14] = {
        name = "LVC",
        layout = {
            RECEIVER,
            integer("lvc.number", 8, "Messages before this one"),
            integer("lvc.next", 8, "Number of the message packed next then"),
            lvc_span,
            integer("lvc.left", 2, "Packets that may follow"),
            integer("lvc.records", 2, "Records"),
            lvc_records,
        },
        summarize = lvc_summarize,
    },
}

-- Types that only protected packets have.
local protected_types = { [15] = { name = "SEAL" } }

local type_names = {}
for code, kind in pairs(types) do
    type_names[code] = kind.name
end
field("uint8", "type", "Type", base.DEC, type_names, 0x0f)

-- --------------------------------------------------------------------------------------------------------- packets

-- Section 2.1.
local function extensions(p)
    local size = take(p, 2)
    local bytes = size and size:le_uint() - 2
    if size == nil then
        return false
    end
    p.tree:add_le(fields["extension.size"], size)
    if bytes < 0 or bytes > p.whole - p.at then
        return fault(p, "malformed", "the extensions do not end in the packet")
    end
    local range = bytes > 0 and take(p, bytes)
    if range then
        p.tree:add(fields["extension.bytes"], range)
    end
    return bytes == 0 or range ~= nil
end

-- The first byte; returns the packet's kind if it is known.
local function first_byte(p)
    local range = take(p, 1)
    local version, code, kind
    if range == nil then
        return nil
    end
    version, code = math.floor(range:uint() / 16), range:uint() % 16
    p.tree:add(fields.version, range)
    p.tree:add(fields.type, range)
    p.protected = version == 2
    kind = types[code] or p.protected and protected_types[code] or nil
    p.name = (version == 1 or p.protected) and kind and kind.name or "libllm"
    if version ~= 1 and not p.protected then
        fault(p, "version", "version " .. version)
    elseif kind == nil then
        fault(p, "type", "type " .. code)
    end
    return (version == 1 or p.protected) and (kind or { name = p.name }) or nil
end

local function header(p, kind)
    local rest = kind.header or { unused(4), unused(4) }
    return layout_read(p, { FLAGS, SIZE, TAG, rest[1], rest[2] })
end

-- For a data packet: the number of packets directly before it that belong to unreliable topics.
local function unrepaired(p, range)
    if p.values.flags % 0x40 > 0 then
        p.tree:add(fields["flags.unrepaired"], range)
        p.unrepaired = p.values.flags % 0x40
    end
end

local function control(p, kind)
    if not (kind.layout and layout_read(p, { SESSION, session_check }) and layout_read(p, kind.layout)) then
        return
    end
    kind.summarize(p)
    if p.at < p.stop then
        p.tree:add(fields.trailing, p.tvb:range(p.at, p.stop - p.at))
    end
end

-- Reads what a protected packet has in clear, section 14. The body is not read, whatever the mode.
local function protected(p, kind)
    local after = kind.body and 20 or 36
    local body, tag
    if kind.body and not layout_read(p, { FIRST }) then
        return
    elseif p.whole - p.at < after then
        return fault(p, "malformed", "too short for a protected packet")
    end
    body = p.whole - p.at - after
    if body > 0 then
        local range = take(p, body)
        if range == nil then
            return
        end
        p.tree:add(fields["protected.body"], range)
    end
    if not kind.body and not layout_read(p, { SENDER, COUNTER }) or not layout_read(p, { EPOCH, SUITE, MODE }) then
        return
    end
    tag = take(p, 16)
    if tag then
        p.tree:add(fields["protected.tag"], tag)
    end
    table.insert(p.info, "protected, epoch " .. p.values["protected.epoch"])
end

-- Reads the packet; p.fault is set if a receiver would drop it.
local function packet(p)
    local kind
    local at = p.at
    if p.whole - p.at < HEADER_BYTES then
        p.name = "libllm"
        return fault(p, "malformed", "shorter than a header")
    end
    kind = first_byte(p)
    if kind == nil or not header(p, kind) then
        return
    end
    if p.values.size ~= p.whole - at then
        return fault(p, "malformed", "says that it has " .. counted(p.values.size, "byte") .. ", of " .. p.whole - at)
    end
    if p.protected then
        return protected(p, kind)
    end
    p.session = p.learns and session_of(p.values.tag) or sessions[p.values.tag] or { topics = {}, carried = {}, seen = {}, naks = {},
        clocks = {} }
    if bit_is_set(p.values.flags, 0x80) and not extensions(p) then
        return
    end
    if kind.layout ~= nil or kind.body == nil then
        if kind.name == "HEARTBEAT" and bit_is_set(p.values.flags, 1) then
            p.tree:add(fields["flags.stream"], p.tvb:range(at + 1, 1))
            p.tree:add(fields["flags.merge"], p.tvb:range(at + 1, 1))
        end
        control(p, kind)
    else
        unrepaired(p, p.tvb:range(at + 1, 1))
        kind.body(p)
        if p.unrepaired then
            table.insert(p.info, "[" .. p.unrepaired .. " before it not repaired]")
        end
    end
    if p.session.id and kind.body then
        generated(p.tree, "session", UInt64.fromhex(p.session.id))
    end
end

local function packet_of(tvb, raw, at, bytes, tree, pinfo)
    return {
        tvb = tvb, raw = raw, at = at, stop = math.min(at + bytes, tvb:len()), whole = math.min(at + bytes, tvb:reported_len()),
        tree = tree, pinfo = pinfo, values = {}, info = {}, found = {}, learns = false,
    }
end

-- ---------------------------------------------------------------------------------------------------------- trains

-- On hosts with segmentation offload, trains are captured as one datagram: packets of one size, of which the last may be shorter.
-- All have the same tag; several NAKs may form a train as well.
-- Bits that are never set.
local function flags_are_odd(code, flags)
    return flags % 0x80 >= (code == 1 and 0x40 or code == 2 and 2 or 1)
end

local function train_fits(raw, tag, step, size)
    local version = math.floor(raw:byte(1) / 16)
    if version ~= 1 and version ~= 2 then
        return false
    end
    for at = 0, size - 1, step do
        local byte, flags = raw:byte(at + 1, at + 2)
        if size - at < HEADER_BYTES then
            return false
        elseif #raw >= at + 8 and (math.floor(byte / 16) ~= version or types[byte % 16] == nil
                                   or flags_are_odd(byte % 16, flags) or raw:sub(at + 5, at + 8) ~= tag) then
            return false
        end
    end
    return true
end

-- Returns the distance between the packets of a train, from the first one's size; the size of the datagram if it is one packet.
local function train_step(tvb, raw)
    local size = tvb:reported_len()
    local said = #raw >= HEADER_BYTES and raw:byte(3) + 256 * raw:byte(4) or size
    if said >= HEADER_BYTES and said < size and train_fits(raw, raw:sub(5, 8), said, size) then
        return said
    end
    return math.max(size, 1)
end

-- ------------------------------------------------------------------------------------------------------- dissectors

-- A frame updates the session once: when it is read first, and not when an ICMP error quotes it.
local function dissect_one(p, index)
    local pinfo = p.pinfo
    local known = analyses[pinfo.number] and analyses[pinfo.number][index]
    p.learns = not pinfo.visited and not pinfo.in_error_pkt
    p.found = known or {}
    packet(p)
    if not known and next(p.found) then
        analyses[pinfo.number] = analyses[pinfo.number] or {}
        analyses[pinfo.number][index] = p.found
    end
    if p.session then
        analysis_show(p)
    end
    if p.cut then
        note(p, "truncated")
        table.insert(p.info, "[captured in part]")
    end
    p.text = p.name .. " " .. table.concat(p.info, ", ")
    p.tree:append_text(", " .. p.text)
end

function llm.dissector(tvb, pinfo, tree)
    local raw, size = tvb:raw(), tvb:reported_len()
    local step = train_step(tvb, raw)
    local texts = {}
    pinfo.cols.protocol = "LLM"
    for at = 0, math.max(tvb:len() - 1, 0), step do
        local bytes = math.min(step, size - at)
        local p = packet_of(tvb, raw, at, bytes, tree:add(llm, tvb:range(at, math.min(bytes, tvb:len() - at))), pinfo)
        dissect_one(p, #texts + 1)
        if step < size then
            generated(p.tree, "train", math.ceil(size / step))
        end
        table.insert(texts, p.text)
    end
    pinfo.cols.info = #texts > 1 and #texts .. " packets: " .. texts[1] .. " ... " .. texts[#texts] or texts[1]
    return tvb:len()
end

-- ------------------------------------------------------------------------------------------------------ heuristics

-- A data packet alone proves nothing. It is accepted if a control packet has shown a session with its tag, or if its packet and
-- message numbers continue those of an earlier packet from the same source.
local function data_is_likely(p, pinfo)
    local from = tostring(pinfo.src) .. " " .. pinfo.src_port .. " " .. p.values.tag
    local before = expected_next[from]
    if sessions[p.values.tag] then
        return true
    end
    expected_next[from] = { seq = (p.values.seq + 1) % WRAP, number = (p.values.number + p.messages) % WRAP }
    return before ~= nil and p.messages > 0 and before.seq == p.values.seq and before.number == p.values.number
end

local function is_likely(tvb, pinfo)
    local raw = tvb:raw()
    local p = packet_of(tvb, raw, 0, train_step(tvb, raw), nothing, pinfo)
    local code = tvb:len() >= HEADER_BYTES and tvb(0, 1):uint()
    if not code or (math.floor(code / 16) ~= 1 and math.floor(code / 16) ~= 2) or types[code % 16] == nil then
        return false
    end
    packet(p)
    if p.fault or flags_are_odd(code % 16, p.values.flags) then
        return false
    end
    -- A protected packet is known by its size, and by an epoch, a suite and a mode that there are.
    if p.protected then
        return not p.cut and p.values["protected.epoch"] > 0 and SUITE_NAMES[p.values["protected.suite"]] ~= nil
            and MODE_NAMES[p.values["protected.mode"]] ~= nil
    end
    -- Control packets have the session's identity beside its tag; a part of one is not accepted.
    return types[code % 16].body and data_is_likely(p, pinfo) or types[code % 16].layout ~= nil and not p.cut
end

-- Later packets between the same two ports are libllm's as well, with any contents.
local function heuristic(tvb, pinfo, tree)
    if pinfo.in_error_pkt or not is_likely(tvb, pinfo) then
        return false
    end
    llm.dissector(tvb, pinfo, tree)
    pinfo.conversation = llm
    return true
end

-- ---------------------------------------------------------------------------------------------------- registration

llm.fields = fields
llm.experts = experts
llm.prefs.ports = Pref.range("UDP ports", "", "Ports whose packets are libllm's without looking, such as 5001-5010", 65535)

local udp_ports = DissectorTable.get("udp.port")
local ports = ""

function llm.prefs_changed()
    if ports ~= llm.prefs.ports then
        if ports ~= "" then
            udp_ports:remove(ports, llm)
        end
        ports = llm.prefs.ports
        if ports ~= "" then
            udp_ports:add(ports, llm)
        end
    end
end

udp_ports:add_for_decode_as(llm)
llm:register_heuristic("udp", heuristic)
