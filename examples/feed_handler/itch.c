/* SPDX-License-Identifier: Apache-2.0 */
#include "itch.h"

#include "cursor.h"

#define DIRECTORY_ATTRIBUTE_BYTES 20

/*
 * Accepts printable text followed by padding only: symbols become topic names and are printed on terminals.
 */
static void read_symbol(struct reader *reader, char *symbol)
{
    const uint8_t *bytes = read_bytes(reader, ITCH_SYMBOL_BYTES);
    size_t size = 0;

    if (bytes == NULL)
        return;
    while (size < ITCH_SYMBOL_BYTES && bytes[size] > ' ' && bytes[size] <= '~')
        size++;
    for (size_t i = size; i < ITCH_SYMBOL_BYTES; i++)
        reader->failed |= bytes[i] != ' ';
    reader->failed |= size == 0;
    memcpy(symbol, bytes, size);
    symbol[size] = '\0';
}

static void write_symbol(struct writer *writer, const char *symbol)
{
    uint8_t *bytes = write_bytes(writer, ITCH_SYMBOL_BYTES);

    for (size_t i = 0; bytes != NULL && i < ITCH_SYMBOL_BYTES; i++)
        bytes[i] = *symbol != '\0' ? (uint8_t)*symbol++ : ' ';
}

static void read_add(struct reader *reader, struct itch_message *message)
{
    message->reference = read_integer(reader, 8);
    message->side = (char)read_integer(reader, 1);
    message->shares = (uint32_t)read_integer(reader, 4);
    read_symbol(reader, message->symbol);
    message->price = (uint32_t)read_integer(reader, 4);
    reader->failed |= message->side != 'B' && message->side != 'S';
}

static void read_replace(struct reader *reader, struct itch_message *message)
{
    message->reference = read_integer(reader, 8);
    message->reference_new = read_integer(reader, 8);
    message->shares = (uint32_t)read_integer(reader, 4);
    message->price = (uint32_t)read_integer(reader, 4);
}

/* Reads the fields after the common bytes. False: the type is not supported. */
static bool read_body(struct reader *reader, struct itch_message *message)
{
    switch (message->type) {
    case ITCH_DIRECTORY:
        read_symbol(reader, message->symbol);
        read_bytes(reader, DIRECTORY_ATTRIBUTE_BYTES);
        return true;
    case ITCH_ADD:
        read_add(reader, message);
        return true;
    case ITCH_EXECUTED:
        message->reference = read_integer(reader, 8);
        message->shares = (uint32_t)read_integer(reader, 4);
        message->match = read_integer(reader, 8);
        return true;
    case ITCH_CANCEL:
        message->reference = read_integer(reader, 8);
        message->shares = (uint32_t)read_integer(reader, 4);
        return true;
    case ITCH_DELETE:
        message->reference = read_integer(reader, 8);
        return true;
    case ITCH_REPLACE:
        read_replace(reader, message);
        return true;
    }
    return false;
}

static bool has_shares(enum itch_type type)
{
    return type == ITCH_ADD || type == ITCH_EXECUTED || type == ITCH_CANCEL || type == ITCH_REPLACE;
}

enum itch_result itch_decode(const void *data, size_t size, struct itch_message *message)
{
    struct reader reader = reader_of(data, size);
    struct itch_message decoded = {.type = (enum itch_type)read_integer(&reader, 1)};

    decoded.locate = (uint16_t)read_integer(&reader, 2);
    read_integer(&reader, 2);
    decoded.timestamp_ns = read_integer(&reader, 6);
    if (reader.failed)
        return ITCH_BAD;
    if (!read_body(&reader, &decoded))
        return ITCH_OTHER;
    if (reader.failed || reader.left != 0 || (has_shares(decoded.type) && decoded.shares == 0))
        return ITCH_BAD;
    *message = decoded;
    return ITCH_OK;
}

static void write_body(struct writer *writer, const struct itch_message *message)
{
    uint8_t *attributes;

    switch (message->type) {
    case ITCH_DIRECTORY:
        write_symbol(writer, message->symbol);
        attributes = write_bytes(writer, DIRECTORY_ATTRIBUTE_BYTES);
        if (attributes != NULL)
            memset(attributes, ' ', DIRECTORY_ATTRIBUTE_BYTES);
        break;
    case ITCH_ADD:
        write_integer(writer, 8, message->reference);
        write_integer(writer, 1, (uint8_t)message->side);
        write_integer(writer, 4, message->shares);
        write_symbol(writer, message->symbol);
        write_integer(writer, 4, message->price);
        break;
    case ITCH_EXECUTED:
        write_integer(writer, 8, message->reference);
        write_integer(writer, 4, message->shares);
        write_integer(writer, 8, message->match);
        break;
    case ITCH_CANCEL:
        write_integer(writer, 8, message->reference);
        write_integer(writer, 4, message->shares);
        break;
    case ITCH_DELETE:
        write_integer(writer, 8, message->reference);
        break;
    case ITCH_REPLACE:
        write_integer(writer, 8, message->reference);
        write_integer(writer, 8, message->reference_new);
        write_integer(writer, 4, message->shares);
        write_integer(writer, 4, message->price);
        break;
    }
}

size_t itch_encode(const struct itch_message *message, void *data, size_t size)
{
    struct writer writer = writer_of(data, size);

    write_integer(&writer, 1, message->type);
    write_integer(&writer, 2, message->locate);
    write_integer(&writer, 2, 0);
    write_integer(&writer, 6, message->timestamp_ns);
    write_body(&writer, message);
    return writer.failed ? 0 : size - writer.left;
}
