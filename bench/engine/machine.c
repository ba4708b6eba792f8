/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <llm/llm.h>

#define PROBE_GROUPS 64
#define PROBE_ROUNDS 32 /* round trips of a group: one is too short for the clock */
#define PROBE_PATIENCE_NS 10000000000ull

/* One line for each direction, on a pair of cache lines of its own, as the prefetcher fetches pairs. */
struct machine_line {
    alignas(128) _Atomic uint32_t turn;
};

/* Copies the value of the first line of a /proc file that starts with the key. */
static int machine_read(const char *path, const char *key, char *value, size_t size)
{
    char line[256];
    FILE *file = fopen(path, "r");
    int found = -1;

    while (file && found != 0 && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');

        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(value, size, "%s", colon);
        found = 0;
    }
    if (file)
        fclose(file);
    return found;
}

void machine_json(const char *key)
{
    char cpu[96] = "unknown CPU", memory[64] = "0", kernel[96];
    struct utsname names = {0};

    (void)machine_read("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    (void)machine_read("/proc/meminfo", "MemTotal", memory, sizeof memory);
    (void)uname(&names);
    (void)snprintf(kernel, sizeof kernel, "%.20s %.50s %.20s", names.sysname, names.release, names.machine);
    json_begin(key, '{');
    json_text("cpu", cpu);
    json_number("cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
    json_number("memory_mib", (double)(strtoull(memory, NULL, 10) / 1024));
    json_text("kernel", kernel);
    json_end('}');
}

/* Returns a figure of a file, with the huge pages that are not part of it. */
static double machine_memory_mib(const char *path, const char *key)
{
    char memory[64] = "0";
    char huge[64] = "0";

    machine_read(path, key, memory, sizeof memory);
    machine_read("/proc/self/status", "HugetlbPages", huge, sizeof huge);
    return (strtod(memory, NULL) + strtod(huge, NULL)) / 1024;
}

double machine_resident_mib(void)
{
    return machine_memory_mib("/proc/self/status", "VmRSS");
}

double machine_resident_mib_max(void)
{
    return machine_memory_mib("/proc/self/status", "VmHWM");
}

double machine_proportional_mib(void)
{
    return machine_memory_mib("/proc/self/smaps_rollup", "Pss");
}

uint64_t machine_waited_ns(void)
{
    unsigned long long waited = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");

    if (!file || fscanf(file, "%*u %llu", &waited) != 1)
        waited = 0;
    if (file)
        fclose(file);
    return waited;
}

uint64_t machine_kernel_ns(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (uint64_t)usage.ru_stime.tv_sec * 1000000000u + (uint64_t)usage.ru_stime.tv_usec * 1000u;
}

static uint32_t machine_wait_turn(struct machine_line *line, uint32_t turn)
{
    uint64_t spins = 0;
    uint64_t start = 0;

    while (atomic_load_explicit(&line->turn, memory_order_acquire) != turn) {
        /* Do not wait forever for a dead peer. The clock is read too seldom to matter. */
        if (++spins % 65536 != 0)
            continue;
        if (start == 0)
            start = llm_clock();
        else if (llm_clock() - start > PROBE_PATIENCE_NS)
            return 0;
    }
    return 1;
}

static void machine_probe_serve(struct machine_line *lines)
{
    for (uint32_t turn = 1; turn <= PROBE_GROUPS * PROBE_ROUNDS; turn++) {
        if (!machine_wait_turn(&lines[0], turn))
            return;
        atomic_store_explicit(&lines[1].turn, turn, memory_order_release);
    }
}

static int machine_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns half the round trip in nanoseconds, the median of the groups; 0 if the peer does not answer. */
static double machine_probe_lines(struct machine_line *lines)
{
    double groups[PROBE_GROUPS];
    uint32_t turn = 0;

    for (int group = 0; group < PROBE_GROUPS; group++) {
        uint64_t start = llm_clock();

        for (int round = 0; round < PROBE_ROUNDS; round++) {
            atomic_store_explicit(&lines[0].turn, ++turn, memory_order_release);
            if (!machine_wait_turn(&lines[1], turn))
                return 0;
        }
        groups[group] = (double)(llm_clock() - start) / (2.0 * PROBE_ROUNDS);
    }
    qsort(groups, PROBE_GROUPS, sizeof groups[0], machine_compare);
    return groups[PROBE_GROUPS / 2];
}

int machine_probe(const struct control *control)
{
    struct machine_line *lines = mmap(NULL, 2 * sizeof *lines, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    const pid_t pid = lines != MAP_FAILED ? fork() : -1;
    cpu_set_t set;

    if (pid < 0)
        control_fail("how near the cores are cannot be measured", strerror(errno));
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        CPU_ZERO(&set);
        CPU_SET(control_number(control, "peer_cpu", 0), &set);
        if (sched_setaffinity(0, sizeof set, &set) == 0)
            machine_probe_serve(lines);
        _exit(0);
    }
    json_done("ns", machine_probe_lines(lines));
    return waitpid(pid, NULL, 0) == pid ? 0 : 1;
}
