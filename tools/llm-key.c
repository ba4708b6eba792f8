/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, extends, checks and shows files of group keys. Prints fingerprints, never a key. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>

#include "core/protect/protect.h"
#include "security/key_reader.h"

enum {
    KEY_FAILED = 1,      /* exit statuses */
    KEY_USAGE = 2,       /* ... */
    DAY = 86400,         /* seconds */
    DAYS_MAX = 36500,    /* of validity */
    MINUTES_MAX = 43200, /* until an epoch begins */
    SOON = DAY,          /* seconds before the end of the last epoch in which `check` says so */
};

struct arguments {
    const char *path;
    const char *name;    /* of check: the channel's, without scheme and options; NULL: not given */
    const char *channel; /* pattern; NULL: not given */
    enum lli_key_suite suite;
    bool suite_given;
    uint64_t days;
    uint64_t minutes;
};

static const char usage[] =
    "usage: llm-key new [--suite SUITE] [--days DAYS] [--channel PATTERN] FILE\n"
    "       llm-key epoch [--suite SUITE] [--days DAYS] [--in MINUTES] [--channel PATTERN] FILE\n"
    "       llm-key check FILE [NAME]\n"
    "       llm-key show FILE\n"
    "       llm-key pair FILE\n"
    "\n"
    "Makes and checks files of group keys, for the option keys of channels.\n"
    "\n"
    "  new     makes a file, which must not exist, with a first epoch that is valid now\n"
    "  epoch   adds the next epoch of each pattern, or of one, and replaces the file as a whole\n"
    "  check   says whether the file can be used now, for a channel of this name if it is given\n"
    "  show    lists the epochs with fingerprints of their keys\n"
    "  pair    makes a private key for the option seal, and FILE.pub with the public one, for seal_keys\n"
    "\n"
    "  --suite SUITE       aes-128-gcm (default), aes-256-gcm or chacha20-poly1305; of epoch: the last "
    "one's\n"
    "  --days DAYS         how long the epoch is valid (7)\n"
    "  --in MINUTES        when it begins (60), but at least a minute before the last one ends\n"
    "  --channel PATTERN   channels that it is for: what follows :// in a channel, with * for any text (*)\n"
    "  --help              this text\n"
    "\n"
    "Exit status: 0; 1 if something failed, or the file cannot be used; 2 for a wrong argument.\n";

static void key_log(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)fprintf(stderr, "llm-key: %s\n", text);
}

static const struct lli_log logger = {.function = key_log, .level = LLM_LEVEL_WARNING};

static int refuse(const char *what, const char *why)
{
    (void)fprintf(stderr, "llm-key: %s: %s; llm-key --help\n", what, why);
    return KEY_USAGE;
}

static int failed(const char *path, const char *what)
{
    (void)fprintf(stderr, "llm-key: %s: %s: %s\n", path, what, strerror(errno));
    return KEY_FAILED;
}

static lli_key_time now(void)
{
    return (lli_key_time)time(NULL);
}

/* ---------------------------------------------------------------------------------------------- writing */

/* Fills the key of an epoch; false: the kernel has no random bytes. */
static bool epoch_fill(struct lli_key_epoch *epoch)
{
    return getrandom(epoch->key, sizeof epoch->key, 0) == (ssize_t)sizeof epoch->key;
}

static bool write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t wrote = write(fd, text, size);

        if (wrote < 0 && errno != EINTR)
            return false;
        text += wrote > 0 ? wrote : 0;
        size -= wrote > 0 ? (size_t)wrote : 0;
    }
    return fsync(fd) == 0;
}

static bool write_epochs(int fd, const struct lli_key_file *file)
{
    static const char head[] =
        "# Group keys of libllm: epoch from until suite key channels; secret, mode 0600\n";
    char line[LLI_KEY_LINE_MAX];
    bool done = write_all(fd, head, sizeof head - 1);

    for (uint32_t i = 0; done && i < file->count; i++)
        done = write_all(fd, line, lli_key_put(line, &file->epochs[i]));
    lli_key_wipe(line, sizeof line);
    return done;
}

/* Writes a file that must not exist. */
static int file_create(const char *path, const struct lli_key_file *file)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool done;

    if (fd < 0)
        return failed(path, errno == EEXIST ? "remove it first, or name another one" : "it cannot be made");
    done = write_epochs(fd, file);
    if (close(fd) == 0 && done)
        return 0;
    (void)failed(path, "it cannot be written");
    (void)unlink(path);
    return KEY_FAILED;
}

/* Replaces a file at once, so that nobody reads a part of it. */
static int file_replace(const char *path, const struct lli_key_file *file)
{
    char fresh[4096];
    int status;

    if (snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh)
        return refuse(path, "the name is too long");
    status = file_create(fresh, file);
    if (status == 0 && rename(fresh, path) != 0) {
        status = failed(path, "it cannot be replaced");
        (void)unlink(fresh);
    }
    return status;
}

/* --------------------------------------------------------------------------------------------- commands */

static void epoch_print(const struct lli_key_epoch *epoch, lli_key_time at)
{
    const char *state = epoch->until <= at ? "ended" : epoch->from > at ? "later" : "valid";
    char from[LLI_KEY_TIME_MAX], until[LLI_KEY_TIME_MAX], fingerprint[LLI_KEY_FINGERPRINT_MAX];

    lli_key_put_time(from, epoch->from);
    lli_key_put_time(until, epoch->until);
    if (!lli_key_fingerprint(epoch, fingerprint))
        (void)snprintf(fingerprint, sizeof fingerprint, "-");
    printf("%-5u  %-5s  %-20s  %-20s  %-17s  %-16s  %s\n", epoch->id, state, from, until,
           lli_key_suite_name(epoch->suite), fingerprint, epoch->pattern);
}

static void head_print(void)
{
    printf("%-5s  %-5s  %-20s  %-20s  %-17s  %-16s  %s\n", "epoch", "state", "from", "until", "suite",
           "fingerprint", "channels");
}

static int command_new(const struct arguments *arguments)
{
    static struct lli_key_file file;
    struct lli_key_epoch *epoch = &file.epochs[0];
    int status;

    file.count = 1;
    *epoch = (struct lli_key_epoch){.id = 1,
                                    .suite = arguments->suite,
                                    .from = now() - LLI_PROTECT_SKEW,
                                    .until = now() + arguments->days * DAY};
    (void)snprintf(epoch->pattern, sizeof epoch->pattern, "%s",
                   arguments->channel != NULL ? arguments->channel : "*");
    if (!epoch_fill(epoch))
        return failed(arguments->path, "random bytes");
    status = file_create(arguments->path, &file);
    if (status == 0) {
        head_print();
        epoch_print(epoch, now());
    }
    lli_key_wipe(&file, sizeof file);
    return status;
}

/* Returns true if no earlier epoch of a file has the pattern of this one. */
static bool is_first_of_pattern(const struct lli_key_file *file, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(file->epochs[i].pattern, file->epochs[index].pattern) == 0)
            return false;
    return true;
}

/* Fills an epoch that follows all of a pattern. False: no number is left for it. */
static bool epoch_after(const struct lli_key_file *file, const char *pattern,
                        const struct arguments *arguments, struct lli_key_epoch *epoch)
{
    const struct lli_key_epoch *last = NULL;
    uint16_t highest = 0;

    for (uint32_t i = 0; i < file->count; i++) {
        const struct lli_key_epoch *other = &file->epochs[i];

        highest = other->id > highest ? other->id : highest;
        if (strcmp(other->pattern, pattern) == 0 && (last == NULL || other->until > last->until))
            last = other;
    }
    *epoch = (struct lli_key_epoch){.id = (uint16_t)(highest + 1),
                                    .suite = last != NULL && !arguments->suite_given ? last->suite
                                                                                     : arguments->suite,
                                    .from = now() + arguments->minutes * 60};
    /* An epoch that ends sooner leaves no gap, if there is time. */
    if (last != NULL && last->until < epoch->from + LLI_PROTECT_SKEW)
        epoch->from = last->until > now() + 2 * LLI_PROTECT_SKEW ? last->until - LLI_PROTECT_SKEW
                                                                 : now() - LLI_PROTECT_SKEW;
    epoch->until = epoch->from + arguments->days * DAY;
    (void)snprintf(epoch->pattern, sizeof epoch->pattern, "%s", pattern);
    return highest < UINT16_MAX;
}

/* Adds an epoch of a pattern. 0, or the exit status. */
static int epoch_add(struct lli_key_file *file, const char *pattern, const struct arguments *arguments)
{
    struct lli_key_epoch *epoch = &file->epochs[file->count];

    if (file->count == LLI_KEY_EPOCHS_MAX)
        return refuse(arguments->path, "it has 64 epochs, and no more fit: remove lines that have ended");
    if (!epoch_after(file, pattern, arguments, epoch))
        return refuse(arguments->path, "epoch 65535 is the last number: make a new file");
    if (!epoch_fill(epoch))
        return failed(arguments->path, "random bytes");
    file->count++;
    return 0;
}

static int command_epoch(const struct arguments *arguments)
{
    struct lli_keys keys;
    struct lli_key_file *file;
    uint32_t before;
    int status = 0;

    if (lli_keys_read(&keys, arguments->path, &logger) != LLM_OK)
        return KEY_FAILED;
    file = keys.file;
    before = file->count;
    if (arguments->channel != NULL)
        status = epoch_add(file, arguments->channel, arguments);
    for (uint32_t i = 0; arguments->channel == NULL && status == 0 && i < before; i++)
        if (is_first_of_pattern(file, i))
            status = epoch_add(file, file->epochs[i].pattern, arguments);
    if (status == 0)
        status = file_replace(arguments->path, file);
    if (status == 0) {
        head_print();
        for (uint32_t i = before; i < file->count; i++)
            epoch_print(&file->epochs[i], now());
    }
    lli_keys_close(&keys);
    return status;
}

/* Checks that an epoch is valid for a name, and warns if the last one ends soon. 0, or the exit status. */
static int name_check(const struct lli_keys *keys, const char *path, const char *name)
{
    const struct lli_key_epoch *current;
    lli_key_time until = 0;
    char text[LLI_KEY_TIME_MAX];

    if (lli_keys_check(keys, path, name, &logger) != LLM_OK ||
        (current = lli_keys_current(keys, path, name, now(), &logger)) == NULL)
        return KEY_FAILED;
    for (uint32_t i = 0; i < keys->file->count; i++)
        if (lli_key_matches(keys->file->epochs[i].pattern, name) && keys->file->epochs[i].until > until)
            until = keys->file->epochs[i].until;
    lli_key_put_time(text, until);
    printf("%s: epoch %u, the last one ends at %s%s\n", name, current->id, text,
           until < now() + SOON ? ": within a day, so make the next one by llm-key epoch" : "");
    return 0;
}

static int command_check(const struct arguments *arguments)
{
    struct lli_keys keys;
    int status = 0;

    if (lli_keys_read(&keys, arguments->path, &logger) != LLM_OK)
        return KEY_FAILED;
    if (arguments->name != NULL)
        status = name_check(&keys, arguments->path, arguments->name);
    for (uint32_t i = 0; arguments->name == NULL && i < keys.file->count; i++)
        if (is_first_of_pattern(keys.file, i))
            status |= name_check(&keys, arguments->path, keys.file->epochs[i].pattern);
    lli_keys_close(&keys);
    return status;
}

static int command_show(const struct arguments *arguments)
{
    struct lli_keys keys;

    if (lli_keys_read(&keys, arguments->path, &logger) != LLM_OK)
        return KEY_FAILED;
    head_print();
    for (uint32_t i = 0; i < keys.file->count; i++)
        epoch_print(&keys.file->epochs[i], now());
    lli_keys_close(&keys);
    return 0;
}

/* Writes a file that must not exist, as PEM. */
static int pair_write(const char *path, EVP_PKEY *key, bool is_private)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_private ? 0600 : 0644);
    BIO *bio;
    bool done;

    if (fd < 0)
        return failed(path, errno == EEXIST ? "remove it first, or name another one" : "it cannot be made");
    bio = BIO_new_fd(fd, BIO_NOCLOSE);
    done = bio != NULL && (is_private ? PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1
                                      : PEM_write_bio_PUBKEY(bio, key) == 1);
    BIO_free(bio);
    done = fsync(fd) == 0 && done;
    if (close(fd) == 0 && done)
        return 0;
    (void)failed(path, "it cannot be written");
    (void)unlink(path);
    return KEY_FAILED;
}

static int command_pair(const struct arguments *arguments)
{
    EVP_PKEY *key;
    char public_path[4096];
    int status;

    if (snprintf(public_path, sizeof public_path, "%s.pub", arguments->path) >= (int)sizeof public_path)
        return refuse(arguments->path, "the name is too long");
    key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (key == NULL) {
        (void)fprintf(stderr, "llm-key: libcrypto does not have Ed25519, perhaps as it is limited to FIPS\n");
        return KEY_FAILED;
    }
    status = pair_write(arguments->path, key, true);
    if (status == 0 && (status = pair_write(public_path, key, false)) != 0)
        (void)unlink(arguments->path);
    EVP_PKEY_free(key);
    if (status == 0)
        printf("%s: private, for the option seal of a transmitter\n%s: public, for the option seal_keys of "
               "receivers\n",
               arguments->path, public_path);
    return status;
}

/* -------------------------------------------------------------------------------------------- arguments */

enum option { OPTION_SUITE = 1, OPTION_DAYS = 2, OPTION_IN = 4, OPTION_CHANNEL = 8, OPTION_NAME = 16 };

static const struct command {
    const char *name;
    unsigned options;
    int (*run)(const struct arguments *arguments);
} commands[] = {
    {"new", OPTION_SUITE | OPTION_DAYS | OPTION_CHANNEL, command_new},
    {"epoch", OPTION_SUITE | OPTION_DAYS | OPTION_IN | OPTION_CHANNEL, command_epoch},
    {"check", OPTION_NAME, command_check},
    {"show", 0, command_show},
    {"pair", 0, command_pair},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static bool read_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == 0 && text[0] != '-' && *value >= least && *value <= most;
}

static bool is_pattern(const char *text)
{
    const size_t size = strlen(text);

    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return size > 0 && size <= LLI_KEY_PATTERN_MAX;
}

/* Reads an option and its value. 0, or the exit status. */
static int option_read(unsigned option, const char *name, const char *value, struct arguments *arguments)
{
    if (value == NULL)
        return refuse(name, "it needs a value");
    switch (option) {
    case OPTION_SUITE:
        arguments->suite = lli_key_suite_find(value, strlen(value));
        arguments->suite_given = true;
        return arguments->suite != 0
                   ? 0
                   : refuse(value, "the suite has to be aes-128-gcm, aes-256-gcm or chacha20-poly1305");
    case OPTION_DAYS:
        return read_number(value, 1, DAYS_MAX, &arguments->days) ? 0 : refuse(value, "days are 1 to 36500");
    case OPTION_IN:
        return read_number(value, 0, MINUTES_MAX, &arguments->minutes)
                   ? 0
                   : refuse(value, "minutes are 0 to 43200");
    default:
        arguments->channel = value;
        return is_pattern(value) ? 0 : refuse(value, "a pattern has 1 to 127 printable characters");
    }
}

static unsigned option_find(const char *text)
{
    return strcmp(text, "--suite") == 0     ? OPTION_SUITE
           : strcmp(text, "--days") == 0    ? OPTION_DAYS
           : strcmp(text, "--in") == 0      ? OPTION_IN
           : strcmp(text, "--channel") == 0 ? OPTION_CHANNEL
                                            : 0;
}

static int arguments_read(const struct command *command, char **at, struct arguments *arguments)
{
    int status = 0;

    for (; status == 0 && *at != NULL; at++) {
        const unsigned option = option_find(*at);

        if (option != 0 && (command->options & option) != 0) {
            status = option_read(option, at[0], at[1], arguments);
            at += status == 0;
        } else if ((*at)[0] == '-') {
            status = refuse(*at, "the command has no such option");
        } else if (arguments->path == NULL) {
            arguments->path = *at;
        } else if (arguments->name == NULL && (command->options & OPTION_NAME) != 0) {
            arguments->name = *at;
        } else {
            status = refuse(*at, "one argument too many");
        }
    }
    return status != 0 || arguments->path != NULL ? status : refuse("file", "it has to be given");
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.suite = LLI_KEY_AES_128_GCM, .days = 7, .minutes = 60};
    int status;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return fflush(stdout) == 0 ? 0 : KEY_FAILED;
        }
    }
    for (int i = 0; argc > 1 && i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        status = arguments_read(&commands[i], argv + 2, &arguments);
        if (status == 0)
            status = commands[i].run(&arguments);
        if (fflush(stdout) != 0 || ferror(stdout))
            return failed("standard output", "it cannot be written");
        return status;
    }
    return refuse(argc > 1 ? argv[1] : "command", "it has to be new, epoch, check, show or pair");
}
