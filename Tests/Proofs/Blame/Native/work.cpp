#include "native_work.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define NOT_INLINED __attribute__((noinline))

namespace shop {

thread_local volatile double sink;

template <typename Number, int Size> struct Matrix {
  std::array<Number, Size * Size> cells{};

  NOT_INLINED Matrix times(const Matrix &other) const {
    Matrix product;
    for (int row = 0; row < Size; row++)
      for (int column = 0; column < Size; column++)
        for (int k = 0; k < Size; k++)
          product.cells[row * Size + column] += cells[row * Size + k] * other.cells[k * Size + column];
    return product;
  }
};

template <typename Number> NOT_INLINED void multiplyMatrices(uint64_t end) {
  Matrix<Number, 24> a, b;
  for (size_t i = 0; i < a.cells.size(); i++)
    a.cells[i] = b.cells[i] = static_cast<Number>(i % 7) / 8;
  while (native_now() < end) {
    a = a.times(b);
    sink = sink + static_cast<double>(a.cells[5]);
    for (auto &cell : a.cells)
      cell = cell / 16 + static_cast<Number>(0.01);
  }
}

struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

NOT_INLINED void refuse(int depth) {
  std::string reason = "no more than " + std::to_string(depth);
  if (depth == 0)
    throw Refusal(reason);
  refuse(depth - 1);
  sink = sink + static_cast<double>(reason.size());
}

NOT_INLINED void throwRefusals(uint64_t end) {
  while (native_now() < end) {
    for (int i = 0; i < 20; i++) {
      try {
        refuse(6);
      } catch (const Refusal &refusal) {
        sink = sink + static_cast<double>(refusal.what()[0]);
      }
    }
  }
}

struct Shelf {
  std::string label;
  int height;
};

NOT_INLINED void sortShelves(uint64_t end) {
  std::vector<Shelf> shelves;
  for (int i = 0; i < 400; i++)
    shelves.push_back({"shelf " + std::to_string(i * 7919 % 401), i});
  while (native_now() < end) {
    auto copy = shelves;
    std::sort(copy.begin(), copy.end(), [](const Shelf &left, const Shelf &right) {
      return left.label != right.label ? left.label < right.label : left.height < right.height;
    });
    sink = sink + copy[0].height;
  }
}

NOT_INLINED void indexTitles(uint64_t end) {
  while (native_now() < end) {
    std::map<std::string, std::vector<int>> titles;
    for (int i = 0; i < 300; i++)
      titles["title number " + std::to_string(i * 31 % 97)].push_back(i);
    sink = sink + static_cast<double>(titles.size());
  }
}

class Gate {
public:
  NOT_INLINED void enter() { mutex_.lock(); }
  NOT_INLINED void leave() { mutex_.unlock(); }

private:
  std::mutex mutex_;
};

NOT_INLINED void waitAtGate(uint64_t end) {
  Gate gate;
  std::mutex mutex;
  std::condition_variable changed;
  bool isHeld = false;
  std::thread holder([&] {
    gate.enter();
    {
      std::lock_guard<std::mutex> lock(mutex);
      isHeld = true;
    }
    changed.notify_one();
    uint64_t now = native_now();
    if (now < end)
      std::this_thread::sleep_for(std::chrono::nanoseconds(end - now));
    gate.leave();
  });
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return isHeld; });
  }
  gate.enter();
  gate.leave();
  holder.join();
}

struct Shape {
  virtual ~Shape() {}
  virtual double area(double scale) const = 0;
};

struct Disc : Shape {
  double radius = 1;
  double area(double scale) const override {
    double sum = 0;
    for (int i = 1; i < 50; i++)
      sum += radius * radius * scale / i;
    return sum;
  }
};

struct Tile : Shape {
  double side = 2;
  double area(double scale) const override {
    double sum = 0;
    for (int i = 1; i < 70; i++)
      sum += side / (scale + i);
    return sum;
  }
};

NOT_INLINED void drawShapes(uint64_t end) {
  std::vector<std::unique_ptr<Shape>> shapes;
  for (int i = 0; i < 100; i++) {
    if (i % 3 == 0)
      shapes.push_back(std::make_unique<Disc>());
    else
      shapes.push_back(std::make_unique<Tile>());
  }
  while (native_now() < end)
    for (auto &shape : shapes)
      sink = sink + shape->area(1.5);
}

} // namespace shop

void enter_multiply_matrices(uint64_t end) { shop::multiplyMatrices<float>(end); }
void enter_throw_refusals(uint64_t end) { shop::throwRefusals(end); }
void enter_sort_shelves(uint64_t end) { shop::sortShelves(end); }
void enter_index_titles(uint64_t end) { shop::indexTitles(end); }
void enter_wait_at_gate(uint64_t end) { shop::waitAtGate(end); }
void enter_draw_shapes(uint64_t end) { shop::drawShapes(end); }
