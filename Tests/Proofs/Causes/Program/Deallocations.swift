import CauseWork

extension Scenario {
  static let deallocations: [Scenario] = [
    Scenario("deallocation-swift-tree", .deallocation, "dropCatalogue(_:until:)") { stage in
      var catalogue = buildCatalogue()
      try stage.turn { dropCatalogue(&catalogue, until: until(1.6)) }
    },
    Scenario("deallocation-c-list", .deallocation, "free_history") { stage in
      build_history(1600)
      try stage.turn { free_history(until(1.8)) }
    },
    Scenario("deallocation-cpp-map", .deallocation, "shop::clearCustomers") { stage in
      enter_build_customers(1600)
      try stage.turn { enter_clear_customers(until(1.8)) }
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

/// Builds as many trees as take 1.6 s of CPU time to be freed. The load can change between the trial and the stall.
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
