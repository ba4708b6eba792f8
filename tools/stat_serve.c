/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "stat_serve.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "stat_print.h"

enum { CLIENTS_MAX = 32, REQUEST_MAX = 8192, PATIENCE_MS = 5000 };

/* A client. Clients do not wait for each other: each has its own request, answer and deadline. */
struct client {
    int fd; /* -1: unused */
    long until_ms;
    char request[REQUEST_MAX];
    size_t got;
    char *answer; /* NULL while the request is read */
    /* Further input is discarded: closing earlier would reset the connection and lose the answer. */
    bool answered;
    size_t size;
    size_t sent;
};

static long now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------------------------------------- listen */

static int serve_refused(const char *address, const char *why)
{
    fprintf(stderr, "llm-stat: --prometheus %s: %s\n", address, why);
    return -1;
}

/* Parses "HOST:PORT". */
static int serve_parse(const char *address, char host[256], const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t length;

    if (colon == NULL || colon[1] == '\0' || (size_t)(colon - address) >= 256 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || strlen(colon + 1) > 5 ||
        atoi(colon + 1) > 65535)
        return serve_refused(address,
                             "must be HOST:PORT, as 127.0.0.1:9464, [::1]:9464 or, for every address, :9464");
    length = (size_t)(colon - address);
    if (length >= 2 && address[0] == '[' && address[length - 1] == ']') {
        address++;
        length -= 2;
    }
    memcpy(host, address, length);
    host[length] = '\0';
    *port = colon + 1;
    return 0;
}

static int serve_listen_at(const struct addrinfo *at)
{
    const int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    const int on = 1;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, CLIENTS_MAX) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static int serve_listen(const char *address)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    const char *port;
    char host[256];
    int error, fd = -1;

    if (serve_parse(address, host, &port) != 0)
        return -1;
    error = getaddrinfo(host[0] == '\0' ? NULL : host, port, &hints, &found);
    if (error != 0)
        return serve_refused(address, gai_strerror(error));
    errno = 0;
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next)
        fd = serve_listen_at(at);
    error = errno;
    freeaddrinfo(found);
    if (fd < 0 && error == EADDRINUSE)
        return serve_refused(
            address, "another process listens there already; end it ('ss -ltnp' names it), or take another "
                     "port");
    return fd < 0 ? serve_refused(address, strerror(error)) : fd;
}

/* ------------------------------------------------------------------------------------------------- answer */

static void client_end(struct client *client)
{
    (void)close(client->fd);
    free(client->answer);
    client->answer = NULL;
    client->fd = -1;
}

static void client_answer(struct client *client, const char *status, const char *type, const char *body,
                          size_t size)
{
    FILE *to = open_memstream(&client->answer, &client->size);

    if (to == NULL)
        return;
    fprintf(to, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status,
            type, size);
    (void)fwrite(body, 1, strncmp(client->request, "HEAD ", 5) == 0 ? 0 : size, to);
    (void)fclose(to);
}

static void client_refuse(struct client *client, const char *status, const char *text)
{
    client_answer(client, status, "text/plain", text, strlen(text));
}

static void client_page(struct client *client, const char *directory)
{
    struct stat_watch watch = {.directory = directory};
    char *page = NULL;
    size_t size = 0;
    FILE *to;

    if (stat_watch_look(&watch) != 0 || (to = open_memstream(&page, &size)) == NULL) {
        client_refuse(client, "500 Internal Server Error",
                      "the directory of the counters files cannot be read\n");
        stat_watch_fini(&watch);
        return;
    }
    stat_print_prometheus(to, &watch);
    (void)fclose(to);
    client_answer(client, "200 OK", "text/plain; version=0.0.4; charset=utf-8", page, size);
    free(page);
    stat_watch_fini(&watch);
}

/* Answers a request whose head is complete. */
static void client_serve(struct client *client, const char *directory)
{
    char method[16], path[256];

    if (sscanf(client->request, "%15[A-Z] %255[^ \r\n]", method, path) != 2)
        client_refuse(client, "400 Bad Request", "this is not HTTP\n");
    else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        client_refuse(client, "405 Method Not Allowed", "only GET and HEAD\n");
    else if (strcmp(path, "/metrics") != 0 && strcmp(path, "/") != 0 && strncmp(path, "/metrics?", 9) != 0)
        client_refuse(client, "404 Not Found", "the counters are at /metrics\n");
    else
        client_page(client, directory);
    if (client->answer == NULL)
        client_end(client);
}

static void client_read(struct client *client, const char *directory)
{
    const ssize_t got = recv(client->fd, client->request + client->got, REQUEST_MAX - 1 - client->got, 0);

    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            client_end(client);
        return;
    }
    client->got += (size_t)got;
    client->request[client->got] = '\0';
    if (strstr(client->request, "\r\n\r\n") != NULL || strstr(client->request, "\n\n") != NULL) {
        client_serve(client, directory);
    } else if (client->got == REQUEST_MAX - 1) {
        client_refuse(client, "431 Request Header Fields Too Large", "the request is too long\n");
        if (client->answer == NULL)
            client_end(client);
    }
}

static void client_write(struct client *client)
{
    const ssize_t sent =
        send(client->fd, client->answer + client->sent, client->size - client->sent, MSG_NOSIGNAL);

    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    client->sent += sent < 0 ? 0 : (size_t)sent;
    if (sent < 0)
        client_end(client);
    else if (client->sent == client->size)
        client->answered = shutdown(client->fd, SHUT_WR) == 0;
}

static void client_drain(struct client *client)
{
    const ssize_t got = recv(client->fd, client->request, REQUEST_MAX, 0);

    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        client_end(client);
}

/* --------------------------------------------------------------------------------------------------- loop */

/* Returns a place for a new client: an unused one, or that of the oldest client. */
static struct client *serve_place(struct client *clients)
{
    struct client *oldest = &clients[0];

    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (clients[i].fd < 0)
            return &clients[i];
        if (clients[i].until_ms < oldest->until_ms)
            oldest = &clients[i];
    }
    client_end(oldest);
    return oldest;
}

static void serve_accept(int listener, struct client *clients)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct client *client;

    if (fd < 0)
        return;
    client = serve_place(clients);
    client->fd = fd;
    client->until_ms = now_ms() + PATIENCE_MS;
    client->got = client->sent = client->size = 0;
    client->answer = NULL;
    client->answered = false;
}

static void serve_round(int listener, struct client *clients, const char *directory)
{
    struct pollfd fds[1 + CLIENTS_MAX] = {{.fd = listener, .events = POLLIN}};

    for (int i = 0; i < CLIENTS_MAX; i++) {
        fds[1 + i].fd = clients[i].fd;
        fds[1 + i].events = clients[i].answer == NULL || clients[i].answered ? POLLIN : POLLOUT;
    }
    if (poll(fds, 1 + CLIENTS_MAX, 1000) < 0)
        return;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (clients[i].fd < 0)
            continue;
        if (fds[1 + i].revents != 0 && clients[i].answer == NULL)
            client_read(&clients[i], directory);
        else if (fds[1 + i].revents != 0 && clients[i].answered)
            client_drain(&clients[i]);
        else if (fds[1 + i].revents != 0)
            client_write(&clients[i]);
        else if (now_ms() >= clients[i].until_ms)
            client_end(&clients[i]);
    }
    if (fds[0].revents != 0)
        serve_accept(listener, clients);
}

int stat_serve(const char *directory, const char *address)
{
    static struct client clients[CLIENTS_MAX];
    const int listener = serve_listen(address);

    if (listener < 0)
        return 1;
    for (int i = 0; i < CLIENTS_MAX; i++)
        clients[i].fd = -1;
    fprintf(stderr, "llm-stat: http://%s%s/metrics\n", address[0] == ':' ? "localhost" : "", address);
    for (;;)
        serve_round(listener, clients, directory);
}
