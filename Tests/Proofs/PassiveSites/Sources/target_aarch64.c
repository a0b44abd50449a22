#define _GNU_SOURCE
#include "target.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* The required part of GDB's remote protocol ("Remote Protocol" in GDB's manual). */
enum { PACKET_MAX = 1 << 16, REGISTERS = 33 };

static pid_t child;
static int stub = -1;
static char packet[PACKET_MAX], socket_path[64];
static uint8_t received[PACKET_MAX];
static size_t received_count, received_at;
static bool has_ended;

static int take(void) {
  if (received_at == received_count) {
    ssize_t count = read(stub, received, sizeof received);
    if (count <= 0)
      return -1;
    received_count = (size_t)count;
    received_at = 0;
  }
  return received[received_at++];
}

/* Sends TEXT and stores the reply in PACKET. */
static bool ask(const char *text) {
  char out[256];
  uint8_t sum = 0;
  for (const char *at = text; *at; at++)
    sum = (uint8_t)(sum + (uint8_t)*at);
  int length = snprintf(out, sizeof out, "$%s#%02x", text, sum);
  if (has_ended || write(stub, out, (size_t)length) != length)
    return false;
  size_t count = 0;
  int byte;
  while ((byte = take()) >= 0 && byte != '$')
    continue;
  while ((byte = take()) >= 0 && byte != '#' && count < PACKET_MAX - 1)
    packet[count++] = (char)byte;
  packet[count] = 0;
  take();
  take();
  if (byte < 0 || write(stub, "+", 1) != 1)
    has_ended = true;
  return !has_ended;
}

static int digit(char text) { return text <= '9' ? text - '0' : (text | 32) - 'a' + 10; }

static void unhex(const char *text, void *destination, size_t length) {
  for (size_t index = 0; index < length; index++)
    ((uint8_t *)destination)[index] = (uint8_t)(digit(text[2 * index]) << 4 | digit(text[2 * index + 1]));
}

static bool registers(struct unwind_registers *registers) {
  if (!ask("g") || strlen(packet) < REGISTERS * 16)
    return false;
  unhex(packet, registers->values, REGISTERS * sizeof(uint64_t));
  registers->known = (UINT64_C(1) << REGISTERS) - 1;
  return true;
}

static bool read_memory(uint64_t address, void *destination, size_t length) {
  enum { PIECE = 1024 };
  uint8_t *to = destination;
  for (size_t at = 0; at < length;) {
    size_t here = length - at < PIECE ? length - at : PIECE;
    char text[64];
    snprintf(text, sizeof text, "m%lx,%zx", (unsigned long)(address + at), here);
    if (!ask(text) || strlen(packet) != here * 2)
      return false;
    unhex(packet, to + at, here);
    at += here;
  }
  return true;
}

/* Up to 15, GDB's signal numbers are those of Linux. Higher numbers do not occur here. */
static int stopped(void) {
  if (packet[0] != 'T' && packet[0] != 'S') {
    has_ended = true;
    return -1;
  }
  int signal = digit(packet[1]) << 4 | digit(packet[2]);
  return signal == SIGTRAP ? 0 : signal;
}

static int step(int signal) {
  static char thread[32];
  char text[64];
  if (thread[0] == 0) { /* QC: the current thread */
    if (!ask("qC") || strncmp(packet, "QC", 2) != 0)
      return -1;
    snprintf(thread, sizeof thread, "%.20s", packet + 2);
  }
  if (signal != 0)
    snprintf(text, sizeof text, "vCont;S%02x:%s", signal, thread);
  else
    snprintf(text, sizeof text, "vCont;s:%s", thread);
  return ask(text) ? stopped() : -1;
}

/* Runs the loader at full speed, up to the program's entry point (AT_ENTRY in the auxiliary vector). */
static void run_to_entry(void) {
  enum { AT_ENTRY_TYPE = 9 };
  uint8_t bytes[1024];
  uint64_t pair[2], entry = 0;
  char text[64];
  size_t length = 0;
  if (!ask("qXfer:auxv:read::0,1000"))
    return;
  for (const char *at = packet + 1; *at || length < 160; at++) {
    if (length == sizeof bytes)
      break;
    bytes[length++] = *at == '}' ? (uint8_t)(*++at ^ 0x20) : (uint8_t)*at;
  }
  for (size_t at = 0; at + sizeof pair <= length && entry == 0; at += sizeof pair) {
    memcpy(pair, bytes + at, sizeof pair);
    if (pair[0] == AT_ENTRY_TYPE)
      entry = pair[1];
  }
  snprintf(text, sizeof text, "Z0,%lx,4", (unsigned long)entry);
  if (entry == 0 || !ask(text) || !ask("c"))
    return;
  text[0] = 'z';
  ask(text);
}

static void end(void) {
  close(stub);
  kill(-child, SIGKILL);
  waitpid(child, NULL, 0);
  unlink(socket_path);
}

const struct target *target_aarch64(char **command) {
  static const struct target target = {
      .architecture = &cunwind_aarch64, .registers = registers, .read = read_memory, .step = step, .end = end};
  snprintf(socket_path, sizeof socket_path, "/tmp/record-%d", (int)getpid());
  child = fork();
  if (child == 0) {
    char *arguments[32] = {"qemu-aarch64-static",    "-g", socket_path,    "-L",
                           "/usr/aarch64-linux-gnu", "-E", "LD_BIND_NOW=1"};
    int count = 7;
    for (; *command && count < 31; command++)
      arguments[count++] = *command;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    execvp(arguments[0], arguments);
    perror(arguments[0]);
    _exit(127);
  }
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, socket_path);
  stub = socket(AF_UNIX, SOCK_STREAM, 0);
  for (int attempt = 0; connect(stub, (struct sockaddr *)&address, sizeof address) != 0; attempt++) {
    if (attempt == 500) {
      perror("qemu-aarch64-static");
      exit(2);
    }
    usleep(10000);
  }
  /* The target description makes x0 to x30, sp and pc the first registers. */
  if (!ask("qSupported:multiprocess+") || !ask("?")) {
    fprintf(stderr, "qemu-aarch64-static does not answer\n");
    exit(2);
  }
  run_to_entry();
  return &target;
}
