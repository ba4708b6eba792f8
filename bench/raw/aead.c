/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare AEADs: how long sealing and opening a packet takes, without the library. One context for each key,
 * and only the nonce set for each packet; the header and the trailer of a packet are authenticated, its body is
 * encrypted. Back ends: libcrypto's EVP and, where the build has it, ipsec-mb. Prints nanoseconds for each call,
 * the median of 1,001 runs of 64 packets, as a table or, with --json, as rows of JSON.
 *
 *   aead [--json] [RATE]
 *
 * The last columns are those of one packet at a time, RATE of them a second (10,000), which is how a channel with few
 * messages needs them: in between an empty socket is read over and over, as a receiver does that polls, and code and keys leave
 * the nearest caches.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#ifdef BENCH_WITH_IPSEC_MB
#include <intel-ipsec-mb.h>
#endif

#include <llm/llm.h>

enum {
    AEAD_HEAD = 22,   /* bytes that are authenticated only: the header of DATA, and four of the trailer */
    AEAD_TAG = 16,    /* bytes of a tag */
    AEAD_NONCE = 12,  /* bytes of a nonce */
    AEAD_RING = 64,   /* packets in the ring, so that one is not as warm as a benchmark's only one */
    AEAD_RUNS = 1001, /* of each measurement; the median counts */
    AEAD_STRIDE = 2048,
    AEAD_PACED = 2001, /* packets of each measurement at a rate; the median counts */
    AEAD_RATE = 10000,
};

struct aead_packet {
    uint8_t head[AEAD_HEAD];
    uint8_t body[AEAD_STRIDE - AEAD_HEAD - AEAD_TAG];
    uint8_t tag[AEAD_TAG];
};

/* Back end with the key of one suite at a time. */
struct aead_backend {
    const char *name;
    void (*key)(const EVP_CIPHER *cipher, const uint8_t *key, int key_bytes);
    void (*seal)(struct aead_packet *packet, int size);
    void (*open)(const struct aead_packet *packet, uint8_t *clear, int size);
};

static struct aead_packet packets[AEAD_RING];
static uint64_t number;

static void aead_fail(const char *what)
{
    (void)fprintf(stderr, "aead: %s failed\n", what);
    exit(1);
}

static void aead_nonce(uint8_t *nonce)
{
    memset(nonce, 0, AEAD_NONCE);
    memcpy(nonce, &number, sizeof number);
    number++;
}

/* -------------------------------------------------------------------------------------------- libcrypto */

static EVP_CIPHER_CTX *evp_sealer, *evp_opener;

static void evp_key(const EVP_CIPHER *cipher, const uint8_t *key, int key_bytes)
{
    (void)key_bytes;
    if (evp_sealer == NULL)
        evp_sealer = EVP_CIPHER_CTX_new();
    if (evp_opener == NULL)
        evp_opener = EVP_CIPHER_CTX_new();
    if (evp_sealer == NULL || evp_opener == NULL ||
        EVP_EncryptInit_ex(evp_sealer, cipher, NULL, key, NULL) != 1 ||
        EVP_DecryptInit_ex(evp_opener, cipher, NULL, key, NULL) != 1)
        aead_fail("setting a key");
}

static void evp_seal(struct aead_packet *packet, int size)
{
    uint8_t nonce[AEAD_NONCE];
    int used;

    aead_nonce(nonce);
    if (EVP_EncryptInit_ex(evp_sealer, NULL, NULL, NULL, nonce) != 1 ||
        EVP_EncryptUpdate(evp_sealer, NULL, &used, packet->head, AEAD_HEAD) != 1 ||
        EVP_EncryptUpdate(evp_sealer, packet->body, &used, packet->body, size) != 1 ||
        EVP_EncryptFinal_ex(evp_sealer, packet->body + used, &used) != 1 ||
        EVP_CIPHER_CTX_ctrl(evp_sealer, EVP_CTRL_AEAD_GET_TAG, AEAD_TAG, packet->tag) != 1)
        aead_fail("sealing");
}

static void evp_open(const struct aead_packet *packet, uint8_t *clear, int size)
{
    uint8_t nonce[AEAD_NONCE], tag[AEAD_TAG];
    int used;

    aead_nonce(nonce);
    memcpy(tag, packet->tag, sizeof tag);
    if (EVP_DecryptInit_ex(evp_opener, NULL, NULL, NULL, nonce) != 1 ||
        EVP_DecryptUpdate(evp_opener, NULL, &used, packet->head, AEAD_HEAD) != 1 ||
        EVP_DecryptUpdate(evp_opener, clear, &used, packet->body, size) != 1 ||
        EVP_CIPHER_CTX_ctrl(evp_opener, EVP_CTRL_AEAD_SET_TAG, AEAD_TAG, tag) != 1 ||
        EVP_DecryptFinal_ex(evp_opener, clear + used, &used) != 1)
        aead_fail("opening");
}

static const struct aead_backend libcrypto = {"libcrypto", evp_key, evp_seal, evp_open};

/* --------------------------------------------------------------------------------------------- ipsec-mb */

#ifdef BENCH_WITH_IPSEC_MB
static IMB_MGR *imb;
static struct gcm_key_data imb_data;
static aes_gcm_enc_dec_t imb_encrypt, imb_decrypt;

static void imb_key(const EVP_CIPHER *cipher, const uint8_t *key, int key_bytes)
{
    (void)cipher;
    if (imb == NULL) {
        imb = alloc_mb_mgr(0);
        if (imb == NULL)
            aead_fail("alloc_mb_mgr()");
        init_mb_mgr_auto(imb, NULL);
    }
    if (key_bytes == 16)
        IMB_AES128_GCM_PRE(imb, key, &imb_data);
    else
        IMB_AES256_GCM_PRE(imb, key, &imb_data);
    imb_encrypt = key_bytes == 16 ? imb->gcm128_enc : imb->gcm256_enc;
    imb_decrypt = key_bytes == 16 ? imb->gcm128_dec : imb->gcm256_dec;
}

static void imb_seal(struct aead_packet *packet, int size)
{
    struct gcm_context_data state;
    uint8_t nonce[AEAD_NONCE];

    aead_nonce(nonce);
    imb_encrypt(&imb_data, &state, packet->body, packet->body, (uint64_t)size, nonce, packet->head, AEAD_HEAD,
                packet->tag, AEAD_TAG);
}

static void imb_open(const struct aead_packet *packet, uint8_t *clear, int size)
{
    struct gcm_context_data state;
    uint8_t nonce[AEAD_NONCE], tag[AEAD_TAG];

    aead_nonce(nonce);
    imb_decrypt(&imb_data, &state, clear, packet->body, (uint64_t)size, nonce, packet->head, AEAD_HEAD, tag,
                AEAD_TAG);
    if (CRYPTO_memcmp(tag, packet->tag, AEAD_TAG) != 0)
        aead_fail("opening");
}

static const struct aead_backend ipsec_mb = {"ipsec-mb", imb_key, imb_seal, imb_open};
#endif

/* ------------------------------------------------------------------------------------------ measurement */

struct aead_suite {
    const struct aead_backend *backend;
    const char *name;
    const EVP_CIPHER *(*cipher)(void);
    int key_bytes;
};

static const struct aead_suite suites[] = {
    {&libcrypto, "aes-128-gcm", EVP_aes_128_gcm, 16},
    {&libcrypto, "aes-256-gcm", EVP_aes_256_gcm, 32},
    {&libcrypto, "chacha20-poly1305", EVP_chacha20_poly1305, 32},
#ifdef BENCH_WITH_IPSEC_MB
    {&ipsec_mb, "aes-128-gcm", EVP_aes_128_gcm, 16},
    {&ipsec_mb, "aes-256-gcm", EVP_aes_256_gcm, 32},
#endif
};

enum { AEAD_SUITES = sizeof suites / sizeof suites[0] };

static const int sizes[] = {64, 256, 1472};

enum { AEAD_SIZES = sizeof sizes / sizeof sizes[0] };

struct aead_times {
    double key, seal, open;
    double paced_seal, paced_open;
};

/* Seals and opens the ring, with the same numbers, and sets a key as often. Adds to the times, ns for a call. */
static void aead_run(const struct aead_suite *suite, const uint8_t *key, int size, struct aead_times *times)
{
    static uint8_t clear[AEAD_STRIDE];
    const uint64_t begin = llm_clock();
    uint64_t keyed, sealed;

    for (int i = 0; i < AEAD_RING; i++)
        suite->backend->key(suite->cipher(), key, suite->key_bytes);
    keyed = llm_clock();
    number = 0;
    for (int i = 0; i < AEAD_RING; i++)
        suite->backend->seal(&packets[i], size);
    sealed = llm_clock();
    number = 0;
    for (int i = 0; i < AEAD_RING; i++)
        suite->backend->open(&packets[i], clear, size);
    *times = (struct aead_times){.key = (double)(keyed - begin) / AEAD_RING,
                                 .seal = (double)(sealed - keyed) / AEAD_RING,
                                 .open = (double)(llm_clock() - sealed) / AEAD_RING};
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof values[0], compare);
    return values[count / 2];
}

/* Reads an empty socket until a time. */
static void aead_wait(int socket, uint64_t until)
{
    char byte;

    while (llm_clock() < until)
        (void)recv(socket, &byte, sizeof byte, MSG_DONTWAIT);
}

/* Seals and opens a packet at a time, in the middle between two seals. Sets the times of one, without the clock's. */
static void aead_pace(const struct aead_suite *suite, int size, int rate, struct aead_times *times)
{
    static double seals[AEAD_PACED], opens[AEAD_PACED], clocks[AEAD_PACED];
    static uint8_t clear[AEAD_STRIDE];
    const int socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
    const uint64_t half = 500000000u / (uint64_t)rate;
    uint64_t due = llm_clock();
    double clock;

    if (socket_fd < 0)
        aead_fail("socket()");
    for (int i = 0; i < AEAD_PACED; i++) {
        uint64_t begin, end;

        aead_wait(socket_fd, due += half);
        number = (uint64_t)i;
        begin = llm_clock();
        suite->backend->seal(&packets[i % AEAD_RING], size);
        end = llm_clock();
        clocks[i] = (double)(llm_clock() - end);
        seals[i] = (double)(end - begin);
        aead_wait(socket_fd, due += half);
        number = (uint64_t)i;
        begin = llm_clock();
        suite->backend->open(&packets[i % AEAD_RING], clear, size);
        opens[i] = (double)(llm_clock() - begin);
    }
    (void)close(socket_fd);
    clock = median(clocks, AEAD_PACED);
    times->paced_seal = median(seals, AEAD_PACED) - clock;
    times->paced_open = median(opens, AEAD_PACED) - clock;
}

static struct aead_times aead_measure(const struct aead_suite *suite, const uint8_t *key, int size, int rate)
{
    static double keys[AEAD_RUNS], seals[AEAD_RUNS], opens[AEAD_RUNS];
    struct aead_times times;

    for (int i = 0; i < AEAD_RUNS; i++) {
        aead_run(suite, key, size, &times);
        keys[i] = times.key;
        seals[i] = times.seal;
        opens[i] = times.open;
    }
    times = (struct aead_times){
        .key = median(keys, AEAD_RUNS), .seal = median(seals, AEAD_RUNS), .open = median(opens, AEAD_RUNS)};
    aead_pace(suite, size, rate, &times);
    return times;
}

int main(int argc, char **argv)
{
    const bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    const int rate = argc > 1 + json ? atoi(argv[1 + json]) : AEAD_RATE;
    uint8_t key[32];

    if (argc > 2 + json || rate < 1 || rate > 1000000) {
        (void)fprintf(stderr, "usage: aead [--json] [RATE], RATE 1 to 1000000 a second\n");
        return 2;
    }
    if (RAND_bytes(key, sizeof key) != 1)
        aead_fail("RAND_bytes()");
    if (!json)
        printf("%-10s %-18s %6s %9s %9s %9s %9s %9s\n", "back end", "suite", "bytes", "seal ns", "open ns",
               "key ns", "seal, one", "open, one");
    for (int i = 0; i < AEAD_SUITES * AEAD_SIZES; i++) {
        const struct aead_suite *suite = &suites[i / AEAD_SIZES];
        const int size = sizes[i % AEAD_SIZES];
        const struct aead_times times = aead_measure(suite, key, size, rate);

        printf(
            json ? "{\"backend\": \"%s\", \"suite\": \"%s\", \"size_bytes\": %d, \"seal_ns\": %.1f, "
                   "\"open_ns\": %.1f, \"key_ns\": %.1f, \"seal_paced_ns\": %.1f, \"open_paced_ns\": %.1f}\n"
                 : "%-10s %-18s %6d %9.1f %9.1f %9.1f %9.1f %9.1f\n",
            suite->backend->name, suite->name, size, times.seal, times.open, times.key, times.paced_seal,
            times.paced_open);
    }
    return 0;
}
