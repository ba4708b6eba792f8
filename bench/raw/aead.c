/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare AEADs: how long sealing and opening a packet takes, without the library. One context for each key,
 * and only the nonce set for each packet; the header and the trailer of a packet are authenticated, its body is
 * encrypted. Back ends: libcrypto's EVP and, where the build has it, ipsec-mb. Prints nanoseconds for each call,
 * the median of 1,001 runs of 64 packets, as a table or, with --json, as rows of JSON.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    *times = (struct aead_times){(double)(keyed - begin) / AEAD_RING, (double)(sealed - keyed) / AEAD_RING,
                                 (double)(llm_clock() - sealed) / AEAD_RING};
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

static struct aead_times aead_measure(const struct aead_suite *suite, const uint8_t *key, int size)
{
    static double keys[AEAD_RUNS], seals[AEAD_RUNS], opens[AEAD_RUNS];
    struct aead_times times;

    for (int i = 0; i < AEAD_RUNS; i++) {
        aead_run(suite, key, size, &times);
        keys[i] = times.key;
        seals[i] = times.seal;
        opens[i] = times.open;
    }
    return (struct aead_times){median(keys, AEAD_RUNS), median(seals, AEAD_RUNS), median(opens, AEAD_RUNS)};
}

int main(int argc, char **argv)
{
    const bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    uint8_t key[32];

    if (argc > 1 && !json) {
        (void)fprintf(stderr, "usage: aead [--json]\n");
        return 2;
    }
    if (RAND_bytes(key, sizeof key) != 1)
        aead_fail("RAND_bytes()");
    if (!json)
        printf("%-10s %-18s %6s %9s %9s %9s\n", "back end", "suite", "bytes", "seal ns", "open ns", "key ns");
    for (int i = 0; i < AEAD_SUITES * AEAD_SIZES; i++) {
        const struct aead_suite *suite = &suites[i / AEAD_SIZES];
        const int size = sizes[i % AEAD_SIZES];
        const struct aead_times times = aead_measure(suite, key, size);

        printf(json ? "{\"backend\": \"%s\", \"suite\": \"%s\", \"size_bytes\": %d, \"seal_ns\": %.1f, "
                      "\"open_ns\": %.1f, \"key_ns\": %.1f}\n"
                    : "%-10s %-18s %6d %9.1f %9.1f %9.1f\n",
               suite->backend->name, suite->name, size, times.seal, times.open, times.key);
    }
    return 0;
}
