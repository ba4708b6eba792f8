/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "security/signature.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "core/keys/key_file.h"
#include "system/memory.h"

enum { SIGNATURE_FILE_MAX = 16384 /* bytes of a file */ };

struct lli_signer {
    EVP_PKEY *key;
    EVP_MD_CTX *context;
};

/* A context is bound to the key that it was first used with. */
struct lli_verifier {
    int count;
    EVP_PKEY *keys[LLI_VERIFIERS_MAX];
    EVP_MD_CTX *contexts[LLI_VERIFIERS_MAX];
};

/* ------------------------------------------------------------------------------------------------ files */

/* Refuses a file that others may change or, of a private key, read. */
static int file_check(int fd, const char *path, bool is_private, const struct lli_log *log)
{
    const mode_t refused = is_private ? S_IRWXG | S_IRWXO : S_IWGRP | S_IWOTH;
    struct stat status;

    if (fstat(fd, &status) != 0)
        return lli_fail(log, LLM_ESYSTEM, "key file %s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return lli_fail(log, LLM_EACCESS, "key file %s: it is not a regular file", path);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return lli_fail(log, LLM_EACCESS,
                        "key file %s: it belongs to user %u; it has to belong to this one (%u) or to root: "
                        "chown it",
                        path, (unsigned)status.st_uid, (unsigned)geteuid());
    if ((status.st_mode & refused) != 0)
        return lli_fail(log, LLM_EACCESS,
                        "key file %s: its mode is %04o, with which others may %s it: chmod %s", path,
                        (unsigned)status.st_mode & 07777, is_private ? "read or change" : "change",
                        is_private ? "0600" : "0644");
    return LLM_OK;
}

/* Reads a file into secret memory. Returns its size, or an error. */
static int file_read(const char *path, bool is_private, struct lli_memory *memory, const struct lli_log *log)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t size;
    int error;

    if (fd < 0)
        return lli_fail(log,
                        errno == ENOENT   ? LLM_ENOTFOUND
                        : errno == EACCES ? LLM_EACCESS
                                          : LLM_ESYSTEM,
                        "key file %s: %s; llm-key pair makes a private and a public one", path,
                        strerror(errno));
    error = file_check(fd, path, is_private, log);
    if (error == LLM_OK)
        error = lli_memory_map_secret(memory, SIGNATURE_FILE_MAX, log);
    if (error == LLM_OK) {
        size = pread(fd, memory->base, SIGNATURE_FILE_MAX, 0);
        if (size < 0)
            error = lli_fail(log, LLM_ESYSTEM, "key file %s: %s", path, strerror(errno));
        else if (size == SIGNATURE_FILE_MAX)
            error = lli_fail(log, LLM_EDAMAGED, "key file %s: it has to be shorter than %d bytes", path,
                             SIGNATURE_FILE_MAX);
        else
            error = (int)size;
    }
    (void)close(fd);
    return error;
}

/* No file has a passphrase: nobody could be asked for it. */
static int file_passphrase(char *text, int size, int writes, void *arg)
{
    (void)text;
    (void)size;
    (void)writes;
    (void)arg;
    return -1;
}

/* Refuses an option whose algorithm libcrypto does not have, before it says the same of the file. */
static int algorithm_check(const char *path, const char *option, const struct lli_log *log)
{
    EVP_SIGNATURE *found;

    (void)ERR_set_mark();
    found = EVP_SIGNATURE_fetch(NULL, "ED25519", NULL);
    (void)ERR_pop_to_mark();
    EVP_SIGNATURE_free(found);
    if (found != NULL)
        return LLM_OK;
    return lli_fail(
        log, LLM_EOPTION,
        "key file %s: libcrypto does not have Ed25519, perhaps as it is limited to FIPS: open the "
        "channel without the option %s",
        path, option);
}

/* --------------------------------------------------------------------------------------------- signing */

void lli_signer_close(struct lli_signer *signer)
{
    if (signer == NULL)
        return;
    EVP_MD_CTX_free(signer->context);
    EVP_PKEY_free(signer->key);
    free(signer);
}

static int signer_fill(struct lli_signer *signer, const char *path, const uint8_t *text, int size,
                       const struct lli_log *log)
{
    BIO *bio = BIO_new_mem_buf(text, size);

    (void)ERR_set_mark();
    if (bio != NULL)
        signer->key = PEM_read_bio_PrivateKey(bio, NULL, file_passphrase, NULL);
    (void)ERR_pop_to_mark();
    BIO_free(bio);
    if (signer->key == NULL || EVP_PKEY_get_id(signer->key) != EVP_PKEY_ED25519)
        return lli_fail(
            log, LLM_EDAMAGED,
            "key file %s: it has no private key of Ed25519 without a passphrase; llm-key pair makes "
            "one",
            path);
    signer->context = EVP_MD_CTX_new();
    if (signer->context == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for keys");
    return LLM_OK;
}

int lli_signer_open(const char *path, const struct lli_log *log, struct lli_signer **opened)
{
    struct lli_signer *signer = calloc(1, sizeof *signer);
    struct lli_memory memory = {.base = NULL};
    int error;

    *opened = NULL;
    if (signer == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for keys");
    error = algorithm_check(path, "seal", log);
    if (error == LLM_OK)
        error = file_read(path, true, &memory, log);
    if (error >= 0)
        error = signer_fill(signer, path, memory.base, error, log);
    lli_memory_unmap_secret(&memory);
    if (error != LLM_OK) {
        lli_signer_close(signer);
        return error;
    }
    *opened = signer;
    return LLM_OK;
}

bool lli_signer_sign(struct lli_signer *signer, const uint8_t *text, size_t size,
                     uint8_t signature[LLI_SEAL_SIGNATURE])
{
    size_t written = LLI_SEAL_SIGNATURE;

    return EVP_DigestSignInit(signer->context, NULL, NULL, NULL, signer->key) == 1 &&
           EVP_DigestSign(signer->context, signature, &written, text, size) == 1;
}

/* ------------------------------------------------------------------------------------------- verifying */

void lli_verifier_close(struct lli_verifier *verifier)
{
    if (verifier == NULL)
        return;
    for (int i = 0; i < verifier->count; i++) {
        EVP_MD_CTX_free(verifier->contexts[i]);
        EVP_PKEY_free(verifier->keys[i]);
    }
    free(verifier);
}

/* Returns how many blocks of PEM a text begins: one that is damaged ends the reading of keys as the text's end does. */
static int verifier_blocks(const uint8_t *text, int size)
{
    static const char begin[] = "-----BEGIN ";
    const uint8_t *at = text;
    int count = 0;

    while ((at = memmem(at, (size_t)(text + size - at), begin, sizeof begin - 1)) != NULL) {
        at += sizeof begin - 1;
        count++;
    }
    return count;
}

static int verifier_fill(struct lli_verifier *verifier, const char *path, const uint8_t *text, int size,
                         const struct lli_log *log)
{
    BIO *bio = BIO_new_mem_buf(text, size);
    int error = bio != NULL ? LLM_OK : LLM_ENOMEM;
    EVP_PKEY *key;

    (void)ERR_set_mark();
    while (error == LLM_OK && (key = PEM_read_bio_PUBKEY(bio, NULL, file_passphrase, NULL)) != NULL) {
        if (EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 && verifier->count < LLI_VERIFIERS_MAX) {
            verifier->keys[verifier->count++] = key;
            continue;
        }
        EVP_PKEY_free(key);
        error = LLM_EDAMAGED;
    }
    (void)ERR_pop_to_mark();
    BIO_free(bio);
    for (int i = 0; i < verifier->count; i++)
        if ((verifier->contexts[i] = EVP_MD_CTX_new()) == NULL)
            error = LLM_ENOMEM;
    if (error == LLM_ENOMEM)
        return lli_fail(log, LLM_ENOMEM, "no memory for keys");
    if (error != LLM_OK || verifier->count == 0 || verifier->count != verifier_blocks(text, size))
        return lli_fail(
            log, LLM_EDAMAGED,
            "key file %s: it has to have 1 to %d public keys of Ed25519, and no others; llm-key pair "
            "makes one",
            path, LLI_VERIFIERS_MAX);
    return LLM_OK;
}

int lli_verifier_open(const char *path, const struct lli_log *log, struct lli_verifier **opened)
{
    struct lli_verifier *verifier = calloc(1, sizeof *verifier);
    struct lli_memory memory = {.base = NULL};
    int error;

    *opened = NULL;
    if (verifier == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for keys");
    error = algorithm_check(path, "seal_keys", log);
    if (error == LLM_OK)
        error = file_read(path, false, &memory, log);
    if (error >= 0)
        error = verifier_fill(verifier, path, memory.base, error, log);
    lli_memory_unmap_secret(&memory);
    if (error != LLM_OK) {
        lli_verifier_close(verifier);
        return error;
    }
    *opened = verifier;
    return LLM_OK;
}

int lli_verifier_check(struct lli_verifier *verifier, int index, const uint8_t *text, size_t size,
                       const uint8_t signature[LLI_SEAL_SIGNATURE])
{
    int found = -1;

    (void)ERR_set_mark();
    for (int i = index < 0 ? 0 : index; found < 0 && i < (index < 0 ? verifier->count : index + 1); i++)
        if (EVP_DigestVerifyInit(verifier->contexts[i], NULL, NULL, NULL, verifier->keys[i]) == 1 &&
            EVP_DigestVerify(verifier->contexts[i], signature, LLI_SEAL_SIGNATURE, text, size) == 1)
            found = i;
    (void)ERR_pop_to_mark();
    return found;
}

/* --------------------------------------------------------------------------------------------- digests */

bool lli_digest_open(struct lli_digest *digest)
{
    digest->context = EVP_MD_CTX_new();
    return digest->context != NULL && EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) == 1;
}

void lli_digest_close(struct lli_digest *digest)
{
    EVP_MD_CTX_free(digest->context);
    digest->context = NULL;
}

bool lli_digest_begin(struct lli_digest *digest)
{
    return EVP_DigestInit_ex(digest->context, NULL, NULL) == 1;
}

bool lli_digest_add(struct lli_digest *digest, const uint8_t *bytes, size_t size)
{
    return EVP_DigestUpdate(digest->context, bytes, size) == 1;
}

bool lli_digest_end(struct lli_digest *digest, uint8_t result[LLI_SEAL_DIGEST])
{
    return EVP_DigestFinal_ex(digest->context, result, NULL) == 1;
}
