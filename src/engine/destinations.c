/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/destinations.h"

#include "engine/protection.h"
#include "engine/sealing.h"

/*
 * Posts packets to one destination, without those that the transport already took for it. In one call, so
 * that segmentation offload (GSO) keeps its trains. Returns the number of packets taken for it so far.
 */
static int destination_post(struct lli_endpoint *endpoint, struct lli_destination *destination,
                            const struct lli_packet *packets, int count)
{
    struct lli_out out[LLI_ENDPOINT_POST];

    for (int i = destination->surplus; i < count; i++)
        out[i] = (struct lli_out){packets[i].data, packets[i].size, destination->to};
    if (destination->surplus < count)
        destination->surplus +=
            lli_endpoint_post(endpoint, out + destination->surplus, count - destination->surplus);
    return destination->surplus;
}

void lli_destinations_post(struct lli_endpoint *endpoint, struct llm_transmitter *transmitter, lli_ns now)
{
    struct lli_destination group = {.to = transmitter->group};
    const bool several = transmitter->destinations != NULL;
    struct lli_destination *destinations = several ? transmitter->destinations : &group;
    const uint32_t destinations_count = several ? transmitter->destinations_count : 1;
    struct lli_packet packets[LLI_ENDPOINT_POST];
    int ready, count, taken;

    do {
        count = ready = lli_tx_unsent(&transmitter->tx, now, packets, LLI_ENDPOINT_POST);
        if (transmitter->protection != NULL)
            count = lli_protection_data(transmitter, packets, count);
        taken = count;
        for (uint32_t i = 0; i < destinations_count; i++) {
            const int of_all = destination_post(endpoint, &destinations[i], packets, count);

            taken = of_all < taken ? of_all : taken;
        }
        for (uint32_t i = 0; i < destinations_count; i++)
            destinations[i].surplus -= taken;
        lli_tx_sent(&transmitter->tx, taken, now);
    } while (lli_tx_may_follow(&transmitter->tx, ready, taken));
    if (transmitter->sealer != NULL)
        lli_sealer_posted(transmitter);
}

void lli_destinations_post_others(struct lli_endpoint *endpoint, const struct llm_transmitter *transmitter,
                                  const struct lli_packet *packet)
{
    for (uint32_t i = 1; i < transmitter->destinations_count && packet->to == NULL; i++) {
        const struct lli_out out = {packet->data, packet->size, transmitter->destinations[i].to};

        (void)lli_endpoint_post(endpoint, &out, 1);
    }
}
