#define _GNU_SOURCE
#include "cause_work.h"
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

static int faults;

/* Resolves each page fault after a delay. */
static void *fetch_pages(void *argument) {
  struct uffd_msg message;
  cause_begun();
  while (read(faults, &message, sizeof message) == (ssize_t)sizeof message) {
    if (message.event != UFFD_EVENT_PAGEFAULT)
      continue;
    usleep(cause_argument(argument) * 1000);
    struct uffdio_zeropage page = {
        .range = {.start = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1), .len = PAGE}};
    ioctl(faults, UFFDIO_ZEROPAGE, &page);
  }
  return NULL;
}

char *cause_late_pages(unsigned pages, unsigned milliseconds) {
  struct uffdio_api api = {.api = UFFD_API};
  faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0)
    return NULL;
  char *place = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED)
    return NULL;
  struct uffdio_register range = {.range = {.start = (uint64_t)(uintptr_t)place, .len = (uint64_t)pages * PAGE},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (ioctl(faults, UFFDIO_REGISTER, &range) != 0)
    return NULL;
  cause_thread("pager", fetch_pages, milliseconds);
  return place;
}

NOT_INLINED void look_up_record(const char *page) {
  cause_sink += (uint64_t) * (const volatile char *)page;
  cause_sink += 1;
}

NOT_INLINED void read_catalogue_pages(const char *path, uint64_t end) {
  static char page[PAGE];
  struct stat found;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &found) != 0)
    return;
  posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
  uint64_t random = 1, pages = (uint64_t)found.st_size / PAGE;
  while (cause_now() < end) {
    for (int i = 0; i < 20; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      cause_sink += (uint64_t)pread(file, page, PAGE, (off_t)((random >> 20) % pages) * PAGE);
    }
  }
  close(file);
}

NOT_INLINED void scan_mapped_file(const char *path, uint64_t end) {
  struct stat found;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &found) != 0)
    return;
  const volatile char *bytes = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED)
    return;
  madvise((void *)(uintptr_t)bytes, (size_t)found.st_size, MADV_RANDOM);
  uint64_t random = 1;
  while (cause_now() < end) {
    for (int i = 0; i < 20; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      cause_sink += (uint64_t)bytes[(random >> 20) % (uint64_t)found.st_size];
    }
  }
  close(file);
}
