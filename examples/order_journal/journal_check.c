/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Audit: reads the directories of stores, and checks that each confirmed order is in as many of them as wanted.
 *
 *   journal_check FILE COPIES DIRECTORY...
 *
 * FILE has the numbers of the confirmed orders, as order_client writes them. Needs no network; the stores may be
 * running. Fails if an order is in fewer than COPIES directories.
 */
#include "order.h"

#include <string.h>

enum { DIRECTORIES_MAX = 8 };

struct journal {
    uint8_t *found; /* by number of the order, a bit for each directory */
    int directory;
    uint64_t orders;
    uint64_t messages_bad;
    uint64_t messages_lost;
};

/* An order may be there twice, if a client sent it again after a gateway had died. */
static void on_message(void *arg, const struct llm_message *message)
{
    struct journal *journal = arg;
    uint64_t number;

    if (strcmp(message->topic, JOURNAL_TOPIC) != 0)
        return;
    if (!order_number(message->data, message->size, &number)) {
        journal->messages_bad++;
        return;
    }
    journal->orders += (journal->found[number] >> journal->directory & 1) == 0;
    journal->found[number] |= (uint8_t)(1u << journal->directory);
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct journal *journal = arg;

    if (event->kind == LLM_EVENT_GAP)
        journal->messages_lost += event->last + 1 - event->first;
}

static void read_journal(struct journal *journal, const char *directory)
{
    struct llm_receiver_handlers handlers;
    struct llm_replay *replay;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = journal;
    handlers.message = on_message;
    handlers.event = on_event;
    journal->orders = journal->messages_bad = journal->messages_lost = 0;
    check(llm_replay_open(directory, NULL, &handlers, NULL, NULL, &replay), directory);
    while (check(llm_replay_next(replay, 1000), directory) > 0)
        ;
    check(llm_replay_close(&replay), "llm_replay_close");
    printf("%s: %" PRIu64 " orders, %" PRIu64 " messages lost, %" PRIu64 " messages that are no order\n",
           directory, journal->orders, journal->messages_lost, journal->messages_bad);
}

/* Returns the number of confirmed orders that are missing. */
static uint64_t compare(const struct journal *journal, FILE *file, int copies)
{
    uint64_t number, confirmed = 0, missing = 0;
    char line[32];

    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        number = argument_number(line, 0, ORDER_NUMBER_MAX);
        confirmed++;
        if (__builtin_popcount(journal->found[number]) >= copies)
            continue;
        if (missing++ == 0)
            printf("order %" PRIu64 " is the first one that is not in %d of the directories\n", number,
                   copies);
    }
    printf("%" PRIu64 " orders confirmed, %" PRIu64 " of them in fewer than %d of the directories\n",
           confirmed, missing, copies);
    return missing;
}

int main(int argc, char **argv)
{
    struct journal journal = {.directory = 0};
    uint64_t missing;
    FILE *file;
    int copies;

    if (argc < 4 || argc > 3 + DIRECTORIES_MAX) {
        fprintf(stderr, "usage: journal_check FILE COPIES DIRECTORY...\nAt most %d directories.\n",
                DIRECTORIES_MAX);
        return EXIT_FAILURE;
    }
    copies = (int)argument_number(argv[2], 1, (uint64_t)(argc - 3));
    file = fopen(argv[1], "r");
    journal.found = calloc(ORDER_NUMBER_MAX + 1, 1);
    if (file == NULL || journal.found == NULL) {
        perror(argv[1]);
        return EXIT_FAILURE;
    }
    for (; journal.directory < argc - 3; journal.directory++)
        read_journal(&journal, argv[3 + journal.directory]);
    missing = compare(&journal, file, copies);
    free(journal.found);
    return fclose(file) == 0 && missing == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
