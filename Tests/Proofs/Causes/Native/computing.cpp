#include "cause_work.h"
#include "threads.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

namespace shop {

static std::mutex stock;

// Another thread waits for the lock that this function's caller holds.
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

// Grows maps in turn, so that consecutive entries are not adjacent in memory.
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

// The number of pieces that take MILLISECONDS to free, if TRIAL pieces take NANOSECONDS; MOST at most.
static size_t enough(size_t trial, unsigned milliseconds, uint64_t nanoseconds, size_t most) {
  return std::min(most, static_cast<size_t>(trial * milliseconds * 1000000ull / (nanoseconds + 1)) + 1);
}

extern "C" {

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
}
