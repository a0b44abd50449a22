import CauseWork

extension Scenario {
  static let deallocations = [
    Scenario("deallocation-swift-tree", .swift, .deallocation, "dropCatalogue(_:until:)") { stage in
      var catalogue = buildCatalogue()
      try stage.turn { dropCatalogue(&catalogue, until: until(1.6)) }
    },
    Scenario("deallocation-swift-array", .swift, .deallocation, "forgetOrders(_:until:)") { stage in
      var orders = buildOrders()
      try stage.turn { forgetOrders(&orders, until: until(1.6)) }
    },
    Scenario("deallocation-c-list", .c, .deallocation, "free_history") { stage in
      build_history(1600)
      try stage.turn { free_history(until(1.8)) }
    },
    Scenario("deallocation-cpp-map", .cpp, .deallocation, "shop::clearCustomers") { stage in
      enter_build_customers(1600)
      try stage.turn { enter_clear_customers(until(1.8)) }
    },
    Scenario("deallocation-cpp-list", .cpp, .deallocation, "shop::clearEvents") { stage in
      enter_build_events(1600)
      try stage.turn { enter_clear_events(until(1.8)) }
    },
  ]
}

private final class Category {
  var left: Category?
  var right: Category?
  init(depth: Int) {
    guard depth > 0 else { return }
    left = Category(depth: depth - 1)
    right = Category(depth: depth - 1)
  }
}

/// Builds trees that take 1.6 s of CPU time to free. Elapsed time would depend on the load.
private func buildCatalogue() -> [Category] {
  func trees(_ count: Int) -> [Category] { (0..<count).map { _ in Category(depth: 13) } }
  var few = trees(10)
  let begin = cause_processor_time()
  dropCatalogue(&few, until: .max)
  let enough = 10 * 1_600_000_000 / (cause_processor_time() - begin + 1)
  return trees(min(Int(enough), 2000))
}

@inline(never) private func dropCatalogue(_ catalogue: inout [Category], until end: UInt64) {
  while !catalogue.isEmpty, cause_now() < end { catalogue.removeLast() }
  keep(catalogue.count)
}

/// Grows several lists in turn, to place consecutive elements apart in memory.
private func buildOrders() -> [[String]] {
  func orders(_ count: Int) -> [[String]] {
    var orders: [[String]] = []
    for _ in 0..<(count + 249) / 250 {
      var turn = Array(repeating: [String](), count: 250)
      for number in 0..<5000 {
        for place in turn.indices { turn[place].append("an article with a name that does not fit, \(number)") }
      }
      orders += turn
    }
    return orders
  }
  var few = orders(250)
  let begin = cause_processor_time()
  forgetOrders(&few, until: .max)
  let enough = 250 * 1_600_000_000 / (cause_processor_time() - begin + 1)
  return orders(min(Int(enough), 4000))
}

@inline(never) private func forgetOrders(_ orders: inout [[String]], until end: UInt64) {
  while !orders.isEmpty, cause_now() < end { orders.removeLast() }
  keep(orders.count + 1)
}
