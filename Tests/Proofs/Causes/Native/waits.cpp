#include "cause_work.h"
#include "processes.h"
#include "threads.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <future>
#include <link.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace shop {

using std::chrono::milliseconds;

// Locks.

class Register {
public:
  NOT_INLINED void open() {
    std::lock_guard<std::mutex> lock(mutex_);
    cause_sink = cause_sink + 1;
  }

  NOT_INLINED void countCash(unsigned time) {
    usleep(time * 1000);
    cause_sink = cause_sink + 2;
  }

  void hold(unsigned time) {
    std::lock_guard<std::mutex> lock(mutex_);
    cause_begun();
    countCash(time);
  }

private:
  std::mutex mutex_;
};

static Register cashRegister;

static void *holdRegister(void *argument) {
  cashRegister.hold(cause_argument(argument));
  return nullptr;
}

// A lock whose owner computes.
class Statistics {
public:
  NOT_INLINED void update() {
    std::unique_lock<std::recursive_mutex> lock(mutex_);
    cause_sink = cause_sink + 1;
  }

  NOT_INLINED void summarise(unsigned time) {
    uint64_t end = cause_now() + time * 1000000ull, value = 1;
    while (cause_now() < end)
      for (int i = 0; i < 5000; i++)
        value = value * 1181783497276652981u + 7;
    cause_sink = cause_sink + value;
  }

  void hold(unsigned time) {
    std::unique_lock<std::recursive_mutex> lock(mutex_);
    cause_begun();
    summarise(time);
  }

private:
  std::recursive_mutex mutex_;
};

static Statistics statistics;

static void *holdStatistics(void *argument) {
  statistics.hold(cause_argument(argument));
  return nullptr;
}

struct Account {
  std::mutex mutex;
};

static Account savings, current;

// The caller holds one lock, and releases that lock before it takes the other.
NOT_INLINED static void auditAccount(unsigned time) {
  usleep(time * 1000);
  cause_sink = cause_sink + 3;
}

static void *audit(void *argument) {
  current.mutex.lock();
  cause_begun();
  auditAccount(cause_argument(argument));
  current.mutex.unlock();
  std::lock_guard<std::mutex> lock(savings.mutex);
  return nullptr;
}

NOT_INLINED void moveMoney() {
  std::lock_guard<std::mutex> first(savings.mutex);
  current.mutex.lock();
  cause_sink = cause_sink + 4;
  current.mutex.unlock();
}

// Orders the addresses: reports of a deadlock start at the lock with the lowest address.
static struct { std::mutex card, purse; } wallet;

NOT_INLINED static void refundPurchase() {
  std::lock_guard<std::mutex> lock(wallet.card);
  cause_sink = cause_sink + 5;
}

static void *refund(void *) {
  std::lock_guard<std::mutex> lock(wallet.purse);
  cause_begun();
  refundPurchase();
  return nullptr;
}

NOT_INLINED void chargeCard() {
  std::lock_guard<std::mutex> lock(wallet.purse);
  cause_sink = cause_sink + 6;
}

// Signals.

class Printer {
public:
  NOT_INLINED void await() {
    // Held throughout the wait, but wanted by no other thread.
    std::lock_guard<std::mutex> paper(paper_);
    std::unique_lock<std::mutex> lock(mutex_);
    isReady_.wait(lock, [this] { return pages_ > 0; });
    cause_sink = cause_sink + static_cast<uint64_t>(pages_);
  }

  void print(unsigned time) {
    cause_begun();
    usleep(time * 1000);
    std::lock_guard<std::mutex> lock(mutex_);
    pages_ += 1;
    isReady_.notify_all();
  }

private:
  std::mutex mutex_, paper_;
  std::condition_variable isReady_;
  int pages_ = 0;
};

static Printer printer;

static void *print(void *argument) {
  printer.print(cause_argument(argument));
  return nullptr;
}

static std::promise<int> promise;
static std::future<int> quote;

static void *giveQuote(void *argument) {
  cause_begun();
  usleep(cause_argument(argument) * 1000);
  promise.set_value(7);
  return nullptr;
}

NOT_INLINED void awaitQuote() { cause_sink = cause_sink + static_cast<uint64_t>(quote.get()); }

// Ends of threads.

static std::thread flusher;

NOT_INLINED static void flushOrders(unsigned time) {
  usleep(time * 1000);
  cause_sink = cause_sink + 7;
}

NOT_INLINED void stopFlusher() {
  flusher.join();
  cause_sink = cause_sink + 1;
}

// One-time initialization.

static std::once_flag hasTaxRules;

NOT_INLINED static void loadTaxRules(unsigned time) {
  cause_begun();
  usleep(time * 1000);
  cause_sink = cause_sink + 8;
}

static void *loadTax(void *argument) {
  std::call_once(hasTaxRules, loadTaxRules, cause_argument(argument));
  return nullptr;
}

NOT_INLINED void applyTax() {
  std::call_once(hasTaxRules, loadTaxRules, 0u);
  cause_sink = cause_sink + 1;
}

struct CountryNames {
  int count = 0;
  NOT_INLINED explicit CountryNames(unsigned time) {
    cause_begun();
    usleep(time * 1000);
    count = 195;
  }
};

NOT_INLINED void showCountry(unsigned time) {
  static CountryNames names(time);
  cause_sink = cause_sink + static_cast<uint64_t>(names.count);
}

static void *loadCountryNames(void *argument) {
  showCountry(cause_argument(argument));
  return nullptr;
}

// The loader.

static int countLibrary(dl_phdr_info *, size_t, void *) {
  cause_sink = cause_sink + 1;
  return 0;
}

NOT_INLINED void listLibraries() {
  dl_iterate_phdr(countLibrary, nullptr);
  cause_sink = cause_sink + 1;
}

// Files.

NOT_INLINED void appendJournal(const char *directory, uint64_t end) {
  FILE *journal = fopen((std::string(directory) + "/journal").c_str(), "w+e");
  while (cause_now() < end) {
    rewind(journal);
    fputs("an order, and what became of it\n", journal);
    fflush(journal);
    cause_sink = cause_sink + (fdatasync(fileno(journal)) == 0 ? 1 : 2);
  }
  fclose(journal);
}

NOT_INLINED void logRequests(const char *directory, uint64_t end) {
  std::ofstream log(std::string(directory) + "/requests.log");
  while (cause_now() < end) {
    for (int i = 0; i < 200; i++)
      log << "GET /orders" << std::endl;
    log.seekp(0);
  }
}

// The network and other processes.

NOT_INLINED void awaitAnswer(int descriptor) {
  fd_set awaited;
  FD_ZERO(&awaited);
  FD_SET(descriptor, &awaited);
  cause_sink = cause_sink + static_cast<uint64_t>(select(descriptor + 1, &awaited, nullptr, nullptr, nullptr));
}

NOT_INLINED void askHelper(int descriptor) {
  char answer[100];
  cause_ignore(write(descriptor, "how many?\n", 10));
  cause_sink = cause_sink + static_cast<uint64_t>(read(descriptor, answer, sizeof answer));
}

NOT_INLINED void convertImages(pid_t child) {
  siginfo_t end{};
  while (waitid(P_PID, static_cast<id_t>(child), &end, WEXITED) != 0 && errno == EINTR) {
  }
  cause_sink = cause_sink + 1;
}

// Sleeping.

NOT_INLINED void backOff(unsigned time) {
  std::this_thread::sleep_for(milliseconds(time));
  cause_sink = cause_sink + 1;
}

NOT_INLINED void paceRetries(unsigned time) {
  timeval pause{static_cast<time_t>(time / 1000), static_cast<suseconds_t>(time % 1000 * 1000)};
  select(0, nullptr, nullptr, nullptr, &pause);
  cause_sink = cause_sink + 2;
}

// Two causes.

// Sleeps twice as long as it computes.
NOT_INLINED void pollAndParse(uint64_t end) {
  uint64_t value = 1;
  while (cause_now() < end) {
    std::this_thread::sleep_for(milliseconds(40));
    uint64_t enough = cause_now() + 20000000;
    while (cause_now() < enough)
      for (int i = 0; i < 2000; i++)
        value = value * 1181783497276652981u + (value >> 33);
    cause_sink = cause_sink + value;
  }
}

static std::mutex basket;

NOT_INLINED static void repriceBasket(unsigned time) {
  usleep(time * 1000);
  cause_sink = cause_sink + 9;
}

static void *checkout(void *argument) {
  std::lock_guard<std::mutex> lock(basket);
  cause_begun();
  repriceBasket(cause_argument(argument));
  return nullptr;
}

// Waits for the owner of the basket, then sleeps.
NOT_INLINED void checkOut(unsigned time) {
  {
    std::lock_guard<std::mutex> lock(basket);
    cause_sink = cause_sink + 1;
  }
  std::this_thread::sleep_for(milliseconds(time));
  cause_sink = cause_sink + 1;
}

NOT_INLINED void searchIndex(const char *pages, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    cause_sink = cause_sink + static_cast<uint64_t>(*static_cast<const volatile char *>(pages + i * 4096));
}

} // namespace shop

extern "C" {

void enter_hold_register(unsigned time) { cause_thread("keeper", shop::holdRegister, time); }
void enter_open_register(void) { shop::cashRegister.open(); }
void enter_hold_statistics(unsigned time) { cause_thread("keeper", shop::holdStatistics, time); }
void enter_update_statistics(void) { shop::statistics.update(); }
void enter_hold_accounts(unsigned time) { cause_thread("auditor", shop::audit, time); }
void enter_move_money(void) { shop::moveMoney(); }

void enter_begin_refund(void) {
  shop::wallet.card.lock();
  cause_thread("refund", shop::refund, 0);
}

void enter_charge_card(void) { shop::chargeCard(); }
void enter_begin_printing(unsigned time) { cause_thread("printer", shop::print, time); }
void enter_await_printer(void) { shop::printer.await(); }

void enter_begin_quote(unsigned time) {
  shop::quote = shop::promise.get_future();
  cause_thread("broker", shop::giveQuote, time);
}

void enter_await_quote(void) { shop::awaitQuote(); }
void enter_begin_flushing(unsigned time) {
  shop::flusher = std::thread([time] { shop::flushOrders(time); });
}
void enter_stop_flusher(void) { shop::stopFlusher(); }
void enter_begin_tax_rules(unsigned time) { cause_thread("tax", shop::loadTax, time); }
void enter_apply_tax(void) { shop::applyTax(); }
void enter_begin_country_names(unsigned time) { cause_thread("countries", shop::loadCountryNames, time); }
void enter_show_country(void) { shop::showCountry(0); }
void enter_list_libraries(void) { shop::listLibraries(); }
void enter_append_journal(const char *directory, uint64_t end) { shop::appendJournal(directory, end); }
void enter_log_requests(const char *directory, uint64_t end) { shop::logRequests(directory, end); }
void enter_await_answer(int descriptor) { shop::awaitAnswer(descriptor); }
void enter_ask_helper(int descriptor) { shop::askHelper(descriptor); }
void enter_convert_images(pid_t child) { shop::convertImages(child); }
void enter_back_off(unsigned time) { shop::backOff(time); }
void enter_pace_retries(unsigned time) { shop::paceRetries(time); }
void enter_search_index(const char *pages, unsigned count) { shop::searchIndex(pages, count); }
void enter_poll_and_parse(uint64_t end) { shop::pollAndParse(end); }
void enter_begin_checkout(unsigned time) { cause_thread("pricing", shop::checkout, time); }
void enter_check_out(unsigned time) { shop::checkOut(time); }
}
