/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how many nanoseconds a cache line takes from one CPU to another: probe CPU CPU. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../machine.h"

int main(int argc, char **argv)
{
    struct machine_probe probe = {0};
    double ns = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: probe CPU CPU\n");
        return 2;
    }
    if (machine_pin((unsigned)atoi(argv[1])) != 0 || machine_probe_open(&probe, (unsigned)atoi(argv[2])) != 0)
        fprintf(stderr, "probe: cannot run on these CPUs: %s\n", strerror(errno));
    else
        ns = machine_probe_run(&probe);
    machine_probe_close(&probe);
    printf("%.0f\n", ns);
    return ns <= 0;
}
