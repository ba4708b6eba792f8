/* SPDX-License-Identifier: Apache-2.0 */
#include "hex.h"

#include "security/aead.h"

/*
 * AES-GCM: test cases 3, 4 and 16 of the proposal of McGrew and Viega, which NIST SP 800-38D specifies, and case 1, which
 * has neither text nor anything else to authenticate. ChaCha20-Poly1305: RFC 8439 section 2.8.2.
 */
static const struct {
    enum lli_key_suite suite;
    const char *key, *nonce, *clear, *text, *sealed, *tag;
} vectors[] = {
    {LLI_KEY_AES_128_GCM, "00000000000000000000000000000000", "000000000000000000000000", "", "", "",
     "58e2fccefa7e3061367f1d57a4e7455a"},
    {LLI_KEY_AES_128_GCM, "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
     "b16aedf5aa0de657ba637b391aafd255",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa05"
     "1ba30b396a0aac973d58e091473f5985",
     "4d5c2af327cd64a62cf35abd2ba6fab4"},
    {LLI_KEY_AES_128_GCM, "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
     "b16aedf5aa0de657ba637b39",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa05"
     "1ba30b396a0aac973d58e091",
     "5bc94fbc3221a5db94fae95ae7121a47"},
    {LLI_KEY_AES_256_GCM, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
     "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
     "b16aedf5aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838"
     "c5f61e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
    {LLI_KEY_CHACHA20_POLY1305, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
     "070000004041424344454647", "50515253c0c1c2c3c4c5c6c7",
     "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f"
     "756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e736372"
     "65656e20776f756c642062652069742e",
     "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a"
     "71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4"
     "def08e4b7a9de576d26586cec64b6116",
     "1ae10b594f09e26a7e902ecbd0600691"},
};

static void vectors_agree(enum lli_aead_backend backend)
{
    if (!lli_aead_choose(backend))
        return;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const struct bytes key = hex(vectors[i].key), nonce = hex(vectors[i].nonce);
        const struct bytes aad = hex(vectors[i].clear), text = hex(vectors[i].text);
        const struct bytes sealed = hex(vectors[i].sealed), tag = hex(vectors[i].tag);
        const struct lli_aead_clear clear = {aad.at, aad.size, NULL, 0};
        struct lli_aead seals = {.context = NULL}, opens = {.context = NULL};
        uint8_t bytes[128], made[16], opened[128];

        assert_int_equal(key.size, lli_key_suite_bytes(vectors[i].suite));
        assert_true(lli_aead_key(&seals, vectors[i].suite, key.at, true));
        assert_true(lli_aead_key(&opens, vectors[i].suite, key.at, false));
        for (int again = 0; again < 2; again++) {
            memcpy(bytes, text.at, text.size);
            assert_true(lli_aead_seal(&seals, nonce.at, &clear, bytes, text.size, made));
            assert_memory_equal(bytes, sealed.at, sealed.size);
            assert_memory_equal(made, tag.at, tag.size);
            assert_true(lli_aead_open(&opens, nonce.at, &clear, bytes, text.size, made, opened));
            assert_memory_equal(opened, text.at, text.size);
            made[15] ^= 1;
            assert_false(lli_aead_open(&opens, nonce.at, &clear, bytes, text.size, made, opened));
        }
        lli_aead_free(&seals);
        lli_aead_free(&opens);
        lli_aead_free(&opens);
    }
}

static void the_vectors_of_nist_and_rfc_8439_agree(void **state)
{
    (void)state;
    vectors_agree(LLI_AEAD_LIBCRYPTO);
    vectors_agree(LLI_AEAD_IPSEC_MB);
}

/* Every size up to some packets, in both modes: encrypted with one piece in clear, and only authenticated in two. */
static void both_back_ends_agree_on_every_byte(void **state)
{
    enum { SIZE_MAX_TRIED = 1500, BACKENDS = 2 };
    static const enum lli_aead_backend backends[BACKENDS] = {LLI_AEAD_LIBCRYPTO, LLI_AEAD_IPSEC_MB};
    static uint8_t text[SIZE_MAX_TRIED], bytes[BACKENDS][SIZE_MAX_TRIED], opened[SIZE_MAX_TRIED];
    uint8_t key[32], nonce[12], head[54], tags[BACKENDS][16];

    (void)state;
    if (!lli_aead_choose(LLI_AEAD_IPSEC_MB))
        skip();
    pattern_fill(text, sizeof text, 1);
    pattern_fill(key, sizeof key, 2);
    pattern_fill(head, sizeof head, 3);
    for (int suite = LLI_KEY_AES_128_GCM; suite <= LLI_KEY_CHACHA20_POLY1305; suite++) {
        struct lli_aead seals[BACKENDS] = {{.context = NULL}}, opens[BACKENDS] = {{.context = NULL}};

        for (int i = 0; i < BACKENDS; i++) {
            assert_true(lli_aead_choose(backends[i]));
            assert_true(lli_aead_key(&seals[i], (enum lli_key_suite)suite, key, true));
            assert_true(lli_aead_key(&opens[i], (enum lli_key_suite)suite, key, false));
        }
        assert_non_null(seals[1].mb);
        for (size_t size = 0; size <= SIZE_MAX_TRIED; size++) {
            for (int encrypts = 0; encrypts < 2; encrypts++) {
                const size_t body = encrypts ? size : 0;
                const struct lli_aead_clear clear = {head, 1 + size % sizeof head, text, encrypts ? 0 : size};

                pattern_fill(nonce, sizeof nonce, size);
                for (int i = 0; i < BACKENDS; i++) {
                    memcpy(bytes[i], text, size);
                    assert_true(lli_aead_seal(&seals[i], nonce, &clear, bytes[i], body, tags[i]));
                }
                assert_memory_equal(bytes[0], bytes[1], size);
                assert_memory_equal(tags[0], tags[1], 16);
                for (int i = 0; i < BACKENDS; i++) {
                    assert_true(lli_aead_open(&opens[i], nonce, &clear, bytes[0], body, tags[0], opened));
                    assert_memory_equal(opened, text, body);
                    tags[0][size % 16] ^= 1;
                    assert_false(lli_aead_open(&opens[i], nonce, &clear, bytes[0], body, tags[0], opened));
                    tags[0][size % 16] ^= 1;
                }
            }
        }
        for (int i = 0; i < BACKENDS; i++) {
            lli_aead_free(&seals[i]);
            lli_aead_free(&opens[i]);
        }
    }
}

static void a_context_takes_another_key_and_suite(void **state)
{
    const uint8_t key[32] = {1}, nonce[12] = {2};
    const struct lli_aead_clear clear = {nonce, sizeof nonce, NULL, 0};
    struct lli_aead aead = {.context = NULL}, other = {.context = NULL};
    uint8_t bytes[2][8] = {{0}}, tags[2][16];

    (void)state;
    assert_true(lli_aead_key(&aead, LLI_KEY_CHACHA20_POLY1305, key, true));
    assert_true(lli_aead_seal(&aead, nonce, &clear, bytes[0], 8, tags[0]));
    assert_true(lli_aead_key(&aead, LLI_KEY_AES_256_GCM, key, true));
    /* The earlier key is nowhere. */
    assert_true(aead.mb == NULL || aead.context == NULL);
    assert_true(lli_aead_key(&other, LLI_KEY_AES_256_GCM, key, true));
    memset(bytes, 0, sizeof bytes);
    assert_true(lli_aead_seal(&aead, nonce, &clear, bytes[0], 8, tags[0]));
    assert_true(lli_aead_seal(&other, nonce, &clear, bytes[1], 8, tags[1]));
    assert_memory_equal(bytes[0], bytes[1], 8);
    assert_memory_equal(tags[0], tags[1], 16);
    assert_false(lli_aead_key(&aead, (enum lli_key_suite)9, key, true));
    lli_aead_free(&aead);
    lli_aead_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_nist_and_rfc_8439_agree),
        cmocka_unit_test(both_back_ends_agree_on_every_byte),
        cmocka_unit_test(a_context_takes_another_key_and_suite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
