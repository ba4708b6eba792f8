/* SPDX-License-Identifier: Apache-2.0 */
#include "hex.h"

#include "security/hkdf.h"

/* RFC 5869, appendix A: the cases with SHA-256. */
static const struct {
    const char *secret, *salt, *info, *output;
} vectors[] = {
    {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
     "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
    {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f"
     "303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f",
     "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f"
     "909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
     "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"
     "e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
     "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
     "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
    {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
     "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
};

static void the_vectors_of_rfc_5869_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const struct bytes secret = hex(vectors[i].secret), salt = hex(vectors[i].salt);
        const struct bytes info = hex(vectors[i].info), expected = hex(vectors[i].output);
        uint8_t output[128];

        assert_true(lli_hkdf(&(struct lli_hkdf_input){secret.at, secret.size},
                             &(struct lli_hkdf_input){salt.size > 0 ? salt.at : NULL, salt.size},
                             &(struct lli_hkdf_input){info.size > 0 ? info.at : NULL, info.size}, output,
                             expected.size));
        assert_memory_equal(output, expected.at, expected.size);
    }
}

static void more_than_hkdf_can_give_is_refused(void **state)
{
    const struct lli_hkdf_input secret = {"secret", 6}, none = {NULL, 0};
    static uint8_t output[8161];

    (void)state;
    assert_true(lli_hkdf(&secret, &none, &none, output, 8160));
    assert_false(lli_hkdf(&secret, &none, &none, output, sizeof output));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_rfc_5869_agree),
        cmocka_unit_test(more_than_hkdf_can_give_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
