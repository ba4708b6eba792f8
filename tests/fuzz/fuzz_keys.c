/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of key files: the input is the text of a file. What it reads is written and read again. */
#include "core/keys/key_file.h"
#include "fuzz.h"

static void check_again(const struct lli_key_epoch *epoch)
{
    static struct lli_key_file again;
    struct lli_key_fault fault;
    char line[LLI_KEY_LINE_MAX];
    const size_t size = lli_key_put(line, epoch);

    FUZZ_CHECK(size < sizeof line && lli_key_parse(line, size, &again, &fault) && again.count == 1);
    again.epochs[0].line = epoch->line;
    FUZZ_CHECK(memcmp(&again.epochs[0], epoch, sizeof *epoch) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lli_key_file file;
    const struct lli_key_epoch *current, *next, *last;
    struct lli_key_fault fault = {.text = NULL};
    struct fuzz_input input = fuzz_input_of(data, size);
    char *text = (char *)fuzz_bytes(&input, size, &size);

    if (lli_key_parse(text, size, &file, &fault)) {
        FUZZ_CHECK(file.count >= 1 && file.count <= LLI_KEY_EPOCHS_MAX);
        for (uint32_t i = 0; i < file.count; i++) {
            FUZZ_CHECK(file.epochs[i].from < file.epochs[i].until);
            FUZZ_CHECK(lli_key_matches("*", file.epochs[i].pattern));
            check_again(&file.epochs[i]);
        }
        current = lli_key_current(&file, "239.192.1.1:5001", 1795564800, &next, &last);
        FUZZ_CHECK(current == NULL || (current->from <= 1795564800 && current->until > 1795564800));
    } else {
        FUZZ_CHECK(fault.text != NULL && memchr(fault.value, 0, sizeof fault.value) != NULL);
        FUZZ_CHECK(file.count == 0);
    }
    free(text);
    return 0;
}

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    static const char *const seeds[] = {
        "7 2026-11-25T10:00:00Z 2026-12-02 aes-128-gcm AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= "
        "239.192.*:*\n",
        "# keys\n\n1 1970-01-01 9999-12-31T23:59:59Z chacha20-poly1305 "
        "/////////////////////////////////////////v8= *\r\n"
        "1 2024-02-29 2026-12-02 aes-256-gcm AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= book\n",
        "65535 2026-11-25 2026-12-02 aes-128-gcm AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= **a*\n65535 x",
        "\n",
    };

    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        emit(arg, (const uint8_t *)seeds[i], strlen(seeds[i]));
}
