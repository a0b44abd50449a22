import CauseWork
import Foundation

extension Scenario {
  static let computing: [Scenario] = [
    .turn("computing-swift", .computing, "priceOrders(until:)") { priceOrders(until: until(1.8)) },
    // The deinitializer computes.
    .turn("computing-swift-deinit", .computing, "Journal.deinit") { keepJournal(until: until(1.8)) },
    .turn("computing-swift-callback", .computing, "rankOffers(until:)") { rankOffers(until: until(1.8)) },
    // Another function works below a recursion.
    Scenario("computing-swift-recursion", .computing, "planDeliveries(until:)", contender: "readLabel(until:)") {
      stage in
      try stage.turn {
        planDeliveries(until: until(1.1))
        visitShelf(12, until: until(0.7))
      }
    },
    // The compiler wrote the initializer in which the time goes.
    .turn("computing-swift-synthesized", .computing, "readUnits(until:)") { readUnits(until: until(1.8)) },
    .turn("computing-swift-arrays", .computing, "createBaskets(until:)") { createBaskets(until: until(1.8)) },
    .turn("computing-c", .computing, "price_baskets") { price_baskets(until(1.8)) },
    .turn("computing-c-malloc", .computing, "allocate_buffers") { allocate_buffers(until(1.8)) },
    .turn("computing-c-spinning", .computing, "spin_for_delivery", after: begin_delivery) { spin_for_delivery() },
    // The comparison belongs to the sort, however much of the time it takes.
    .turn("computing-c-callback", .computing, "rank_suppliers") { rank_suppliers(until(1.8)) },
    // The interpreter of another language is not the application's code, and does not hide its caller.
    Scenario("computing-c-luajit", .computing, "run_discount_script") { stage in
      guard cause_open_script() else { throw Unavailable("libluajit-5.1.so.2 is not installed") }
      try stage.turn { run_discount_script(until(1.8)) }
    },
    .turn("computing-c-go", .computing, "main.packParcels") { pack_in_go(until(1.8)) },
    // Another process stops this one for a while, which does not count as stall time.
    Scenario("computing-c-stopped", .computing, "price_baskets") { stage in
      let stopper = cause_stopper(1200, 1500)
      try stage.turn { price_baskets(until(3.6)) }
      cause_end_child(stopper)
    },
  ]
}

@inline(never) private func priceOrders(until end: UInt64) {
  var total: UInt64 = 1
  while cause_now() < end {
    for number in 0..<20_000 as Range<UInt64> { total = (total &* 6_364_136_223_846_793_005 &+ number) ^ (total >> 29) }
    keep(Int(total & 1))
  }
}

private final class Journal {
  let end: UInt64
  init(until end: UInt64) { self.end = end }

  deinit {
    var sum: UInt64 = 1
    while cause_now() < end { for number in 0..<5000 as Range<UInt64> { sum = (sum &* 31 &+ number) ^ (sum >> 7) } }
    keep(Int(sum & 1))
  }
}

@inline(never) private func keepJournal(until end: UInt64) {
  var journals = [Journal(until: end)]
  keep(journals.count)
  journals.removeAll()
  keep(journals.count)
}

@inline(never) private func isBetter(_ one: Int, _ other: Int) -> Bool {
  var (left, right) = (one, other)
  for _ in 0..<2000 { (left, right) = ((left &* 31 &+ right) % 1_000_003, (right &* 17 &+ left) % 1_000_003) }
  keep(left)
  return one < other
}

@inline(never) private func rankOffers(until end: UInt64) {
  let offers = (0..<500).map { ($0 * 7919) % 503 }
  while cause_now() < end { keep(offers.sorted(by: isBetter).first ?? 0) }
}

@inline(never) private func planDeliveries(until end: UInt64) {
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<5000 { value = value &* 6_364_136_223_846_793_005 &+ (value >> 17) } }
  keep(Int(value & 7))
}

@inline(never) private func visitShelf(_ depth: Int, until end: UInt64) {
  if depth == 0 { readLabel(until: end) } else { visitShelf(depth - 1, until: end) }
  keep(depth)
}

@inline(never) private func readLabel(until end: UInt64) {
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<5000 { value = value &* 1_181_783_497_276_652_981 &+ (value >> 19) } }
  keep(Int(value & 15))
}

private enum UnitOfSale: String {
  case piece, pair, dozen, gross, gram, kilogram, tonne, ounce, pound, litre, pint, gallon, barrel, metre, mile, inch
  case foot, yard, acre, hectare, second, minute, hour, day, week, month, year
}

@inline(never) private func readUnits(until end: UInt64) {
  let names = ["hectare", "month", "year", "a unit that does not exist", "week"]
  while cause_now() < end {
    for name in names { keep(UnitOfSale(rawValue: name) == nil ? 1 : 0) }
  }
}

@inline(never) private func createBaskets(until end: UInt64) {
  while cause_now() < end {
    var baskets: [[Int]] = []
    for number in 0..<500 { baskets.append([number, number]) }
    keep(baskets.count)
  }
}
