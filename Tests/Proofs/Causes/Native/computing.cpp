#include "cause_work.h"
#include "threads.h"

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace shop {

NOT_INLINED void multiplyRates(uint64_t end) {
  enum { size = 32 };
  std::array<double, size * size> a, b, product{};
  for (size_t i = 0; i < a.size(); i++)
    a[i] = b[i] = static_cast<double>(i % 7) / 8;
  while (cause_now() < end) {
    for (int row = 0; row < size; row++)
      for (int column = 0; column < size; column++) {
        double sum = 0;
        for (int k = 0; k < size; k++)
          sum += a[row * size + k] * b[k * size + column];
        product[row * size + column] = sum / size;
      }
    std::swap(a, product);
    cause_sink = cause_sink + static_cast<uint64_t>(a[5]);
  }
}

struct Session {
  long user;
  char token[72];
};

NOT_INLINED void createSessions(uint64_t end) {
  std::vector<Session *> sessions(3000);
  while (cause_now() < end) {
    for (size_t i = 0; i < sessions.size(); i++)
      sessions[i] = new Session{static_cast<long>(i), {}};
    for (size_t i = 0; i < sessions.size(); i++)
      delete sessions[i * 7 % sessions.size()];
    cause_sink = cause_sink + sessions.size();
  }
}

NOT_INLINED void sortShelves(uint64_t end) {
  std::vector<std::string> shelves;
  for (int i = 0; i < 2000; i++)
    shelves.push_back("shelf number " + std::to_string(i * 7919 % 2003));
  uint32_t random = 1;
  while (cause_now() < end) {
    std::sort(shelves.begin(), shelves.end());
    for (size_t i = shelves.size() - 1; i > 0; i--) {
      random = random * 1664525u + 1013904223u;
      std::swap(shelves[i], shelves[(random >> 8) % i]);
    }
    cause_sink = cause_sink + shelves[0].size();
  }
}

NOT_INLINED void scanLogLines(uint64_t end) {
  const std::regex pattern("(GET|POST) (/[a-z]+)+ ([0-9]{3}) .*ms$");
  const std::string line = "10.0.0.7 - GET /orders/open/today 200 in 1375 ms";
  std::smatch found;
  while (cause_now() < end)
    for (int i = 0; i < 20; i++)
      cause_sink = cause_sink + (std::regex_search(line, found, pattern) ? found.size() : 1);
}

NOT_INLINED void writeSummary(uint64_t end) {
  while (cause_now() < end) {
    std::ostringstream text;
    for (int i = 0; i < 200; i++)
      text << "order " << i << ", " << i * 1.75 << " EUR, " << std::hex << i << std::dec << "\n";
    cause_sink = cause_sink + text.str().size();
  }
}

static std::mutex stock;

// The caller holds a lock that another thread waits for.
NOT_INLINED void recountStock(uint64_t end) {
  uint64_t value = 1;
  while (cause_now() < end)
    for (int i = 0; i < 5000; i++)
      value = value * 3935559000370003845u + 2691343689449507681u;
  cause_sink = cause_sink + value;
}

static void *readStock(void *) {
  cause_begun();
  std::lock_guard<std::mutex> lock(stock);
  cause_sink = cause_sink + 1;
  return nullptr;
}

struct Customer {
  std::string name;
  std::string street;
};

using Customers = std::map<int, Customer>;
static std::vector<Customers> customers;

NOT_INLINED void clearCustomers(uint64_t end) {
  while (!customers.empty() && cause_now() < end)
    customers.pop_back();
  cause_sink = cause_sink + 1;
}

// Grows several maps in turn, to place consecutive entries apart in memory.
static void buildCustomers(size_t count) {
  for (size_t done = 0; done < count; done += 20) {
    std::vector<Customers> turn(20);
    for (int number = 0; number < 20000; number++)
      for (Customers &group : turn)
        group.emplace_hint(
            group.end(), number,
            Customer{"a customer with a long name", "a street that nobody can spell, " + std::to_string(number)});
    for (Customers &group : turn)
      customers.push_back(std::move(group));
  }
}

using Events = std::list<std::array<char, 48>>;
static std::vector<Events> events;

NOT_INLINED void clearEvents(uint64_t end) {
  while (!events.empty() && cause_now() < end)
    events.pop_back();
  cause_sink = cause_sink + 2;
}

static void buildEvents(size_t count) {
  for (size_t done = 0; done < count; done += 50) {
    std::vector<Events> turn(50);
    for (int number = 0; number < 20000; number++)
      for (size_t i = 0; i < turn.size(); i++)
        turn[(i * 7 + static_cast<size_t>(number)) % turn.size()].emplace_back();
    for (auto &list : turn)
      events.push_back(std::move(list));
  }
}

NOT_INLINED void fitCurve(uint64_t end) {
  double slope = 0.5, error = 1;
  while (cause_now() < end)
    for (int i = 1; i < 3000; i++) {
      error = slope * i - 3.25 * i + error / 2;
      slope -= error * 1e-9;
    }
  cause_sink = cause_sink + static_cast<uint64_t>(slope);
}

NOT_INLINED void applyEvent() {
  usleep(10000);
  cause_sink = cause_sink + 3;
}

} // namespace shop

// Returns the number of pieces that take MILLISECONDS to free, if TRIAL pieces take NANOSECONDS. At most MOST.
static size_t enough(size_t trial, unsigned milliseconds, uint64_t nanoseconds, size_t most) {
  return std::min(most, static_cast<size_t>(trial * milliseconds * 1000000ull / (nanoseconds + 1)) + 1);
}

extern "C" {

void enter_multiply_rates(uint64_t end) { shop::multiplyRates(end); }
void enter_create_sessions(uint64_t end) { shop::createSessions(end); }
void enter_sort_shelves(uint64_t end) { shop::sortShelves(end); }
void enter_scan_log_lines(uint64_t end) { shop::scanLogLines(end); }
void enter_write_summary(uint64_t end) { shop::writeSummary(end); }
void enter_fit_curve(uint64_t end) { shop::fitCurve(end); }
void enter_apply_event(void) { shop::applyEvent(); }

void enter_recount_stock(uint64_t end) {
  std::lock_guard<std::mutex> lock(shop::stock);
  cause_thread("reader", shop::readStock, 0);
  shop::recountStock(end);
}

void enter_build_customers(unsigned milliseconds) {
  shop::buildCustomers(20);
  uint64_t begin = cause_processor_time();
  shop::clearCustomers(UINT64_MAX);
  shop::buildCustomers(enough(20, milliseconds, cause_processor_time() - begin, 600));
}

void enter_clear_customers(uint64_t end) { shop::clearCustomers(end); }

void enter_build_events(unsigned milliseconds) {
  shop::buildEvents(50);
  uint64_t begin = cause_processor_time();
  shop::clearEvents(UINT64_MAX);
  shop::buildEvents(enough(50, milliseconds, cause_processor_time() - begin, 1000));
}

void enter_clear_events(uint64_t end) { shop::clearEvents(end); }
}
