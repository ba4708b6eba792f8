/* SPDX-License-Identifier: Apache-2.0 */
/* Program for the adapter of another library. */
#include "../engine/control.h"
#include "adapter.h"

int main(int argc, char **argv)
{
    struct control control;

    control_of_arguments(&control, argc, argv);
    return ends_run(&control, &adapter_peer, NULL);
}
