/* Stream sockets with a path. Every wait has a deadline, except the wait for a client. */
#ifndef CLINUX_SOCKET_H
#define CLINUX_SOCKET_H

#include "clinux_base.h"

/* Listens at PATH, absolute, created with mode 0600. Returns the close-on-exec descriptor, or a negative error
 * number. Async-signal-safe: no. Threads: any. */
int clinux_socket_listen(const char *path);

/* Waits for a client of LISTENER. Returns its descriptor, or a negative error number: -EINVAL after
 * clinux_socket_end. Async-signal-safe: yes. Threads: any. */
int clinux_socket_accept(int listener);

/* Makes clinux_socket_accept fail from now on. Async-signal-safe: yes. Threads: any. */
void clinux_socket_end(int listener);

/* Connects to the socket at PATH, of any length, without waiting. Returns the close-on-exec descriptor, or a
 * negative error number: -ECONNREFUSED if no process listens. Async-signal-safe: no. Threads: any. */
int clinux_socket_connect(const char *path);

/* Sets *PROCESS to the peer of SOCKET, 0 if not visible in this PID namespace, and *USER to its effective user. Returns
 * false if unknown. Async-signal-safe: yes. Threads: any. */
bool clinux_socket_peer(int socket, int32_t *process, uint32_t *user);

/* Receives up to CAPACITY bytes, at least one unless the peer has closed the connection. Returns the number of bytes,
 * or a negative error number: -ETIMEDOUT at DEADLINE_NS (clinux_clock_ns). Async-signal-safe: yes. Threads: any. */
int64_t clinux_socket_receive(int socket, void *buffer, size_t capacity, uint64_t deadline_ns);

/* Sends the LENGTH bytes at BYTES. Returns 0, or a negative error number as clinux_socket_receive.
 * Async-signal-safe: yes. Threads: any. */
int clinux_socket_send(int socket, const void *bytes, size_t length, uint64_t deadline_ns);

#endif
