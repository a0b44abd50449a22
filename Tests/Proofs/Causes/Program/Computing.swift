import CauseWork
import Foundation
import Synchronization

extension Scenario {
  static let computing = [
    Scenario("computing-swift", .swift, .computing, "priceOrders(until:)", work: .ownCode) { stage in
      try stage.turn { priceOrders(until: until(1.8)) }
    },
    Scenario("computing-swift-decoder", .swift, .computing, "decodeOrders(until:)", work: .json) { stage in
      try stage.turn { decodeOrders(until: until(1.8)) }
    },
    Scenario("computing-swift-serialization", .swift, .computing, "readSettings(until:)", work: .json) { stage in
      try stage.turn { readSettings(until: until(1.8)) }
    },
    Scenario("computing-swift-encoder", .swift, .computing, "encodeAnswers(until:)", work: .json) { stage in
      try stage.turn { encodeAnswers(until: until(1.8)) }
    },
    Scenario(
      "computing-swift-expression",
      .swift,
      .computing,
      "findTelephoneNumbers(until:)",
      work: .regularExpressions
    ) { stage in
      try stage.turn { findTelephoneNumbers(until: until(1.8)) }
    },
    Scenario("computing-swift-regex", .swift, .computing, "matchInvoices(until:)", work: .regularExpressions) { stage in
      try stage.turn { matchInvoices(until: until(1.8)) }
    },
    // Plain searches are in the module of regular expressions, but count as text.
    Scenario("computing-swift-split", .swift, .computing, "divideAddresses(until:)", work: .text) { stage in
      try stage.turn { divideAddresses(until: until(1.8)) }
    },
    Scenario("computing-swift-base64", .swift, .computing, "packLabels(until:)", work: .codable) { stage in
      try stage.turn { packLabels(until: until(1.8)) }
    },
    // The deinitializer computes.
    Scenario("computing-swift-deinit", .swift, .computing, "Journal.deinit", work: .ownCode) { stage in
      try stage.turn { keepJournal(until: until(1.8)) }
    },
    Scenario("computing-swift-text", .swift, .computing, "renderInvoice(until:)", work: .text) { stage in
      try stage.turn { renderInvoice(until: until(1.8)) }
    },
    Scenario("computing-swift-format", .swift, .computing, "labelParcels(until:)", work: .text) { stage in
      try stage.turn { labelParcels(until: until(1.8)) }
    },
    Scenario("computing-swift-sort", .swift, .computing, "sortCustomers(until:)", work: .sorting) { stage in
      try stage.turn { sortCustomers(until: until(1.8)) }
    },
    Scenario("computing-swift-callback", .swift, .computing, "rankOffers(until:)", work: .ownCode) { stage in
      try stage.turn { rankOffers(until: until(1.8)) }
    },
    // The contender works at the end of a recursion.
    Scenario(
      "computing-swift-recursion",
      .swift,
      .computing,
      "planDeliveries(until:)",
      contender: "readLabel(until:)",
      work: .ownCode
    ) { stage in
      try stage.turn {
        planDeliveries(until: until(1.1))
        visitShelf(12, until: until(0.7))
      }
    },
    // The initializer that takes the time is synthesized by the compiler.
    Scenario("computing-swift-synthesized", .swift, .computing, "readUnits(until:)") { stage in
      try stage.turn { readUnits(until: until(1.8)) }
    },
    Scenario("computing-swift-dictionary", .swift, .computing, "groupSales(until:)", work: .collections) { stage in
      try stage.turn { groupSales(until: until(1.8)) }
    },
    Scenario("computing-swift-arrays", .swift, .computing, "createBaskets(until:)", work: .allocation) { stage in
      try stage.turn { createBaskets(until: until(1.8)) }
    },
    Scenario("computing-swift-spinning", .swift, .computing, "spinForAnswer(_:)", work: .ownCode) { stage in
      let answer = Answer()
      onThread("answering") { begun in
        begun()
        usleep(1_800_000)
        answer.isThere.store(true, ordering: .releasing)
      }
      try stage.turn { spinForAnswer(answer) }
    },
    Scenario("computing-c", .c, .computing, "price_baskets", work: .ownCode) { stage in
      try stage.turn { price_baskets(until(1.8)) }
    },
    Scenario("computing-c-malloc", .c, .computing, "allocate_buffers", work: .allocation) { stage in
      try stage.turn { allocate_buffers(until(1.8)) }
    },
    Scenario("computing-c-printf", .c, .computing, "format_receipts", work: .text) { stage in
      try stage.turn { format_receipts(until(1.8)) }
    },
    Scenario("computing-c-sort", .c, .computing, "rank_products", work: .sorting) { stage in
      try stage.turn { rank_products(until(1.8)) }
    },
    Scenario("computing-c-compression", .c, .computing, "compress_archive", work: .compression) { stage in
      try stage.turn { compress_archive(until(1.8)) }
    },
    Scenario("computing-c-spinning", .c, .computing, "spin_for_delivery", work: .ownCode) { stage in
      begin_delivery(1800)
      try stage.turn { spin_for_delivery() }
    },
    // The comparison belongs to the sort, even if it takes nearly all of the time.
    Scenario("computing-c-callback", .c, .computing, "rank_suppliers", work: .ownCode) { stage in
      try stage.turn { rank_suppliers(until(1.8)) }
    },
    // An interpreter is not the application's code, so the culprit is its caller.
    Scenario("computing-c-luajit", .c, .computing, "run_discount_script") { stage in
      guard cause_open_script() else { throw Unavailable("libluajit-5.1.so.2 is not installed") }
      try stage.turn { run_discount_script(until(1.8)) }
    },
    Scenario("computing-c-go", .c, .computing, "main.packParcels") { stage in
      try stage.turn { pack_in_go(until(1.8)) }
    },
    Scenario("computing-cpp", .cpp, .computing, "shop::multiplyRates", work: .ownCode) { stage in
      try stage.turn { enter_multiply_rates(until(1.8)) }
    },
    Scenario("computing-cpp-new", .cpp, .computing, "shop::createSessions", work: .allocation) { stage in
      try stage.turn { enter_create_sessions(until(1.8)) }
    },
    Scenario("computing-cpp-sort", .cpp, .computing, "shop::sortShelves", work: .sorting) { stage in
      try stage.turn { enter_sort_shelves(until(1.8)) }
    },
    Scenario("computing-cpp-regex", .cpp, .computing, "shop::scanLogLines", work: .regularExpressions) { stage in
      try stage.turn { enter_scan_log_lines(until(1.8)) }
    },
    Scenario("computing-cpp-stream", .cpp, .computing, "shop::writeSummary", work: .text) { stage in
      try stage.turn { enter_write_summary(until(1.8)) }
    },
    // Another process stops this process for a while. The stop does not count as stall time.
    Scenario("computing-c-stopped", .c, .computing, also: [.suspension], "price_baskets", work: .ownCode) { stage in
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

private struct Order: Codable {
  var id: Int
  var customer: String
  var goods: [String]
  var price: Double
}

@inline(never) private func decodeOrders(until end: UInt64) {
  let order = #"{"id": 7, "customer": "Ada", "goods": ["tea", "pears", "paper"], "price": 12.75}"#
  let text = Data("[\(Array(repeating: order, count: 200).joined(separator: ", "))]".utf8)
  while cause_now() < end { keep((try? JSONDecoder().decode([Order].self, from: text))?.count ?? 0) }
}

@inline(never) private func readSettings(until end: UInt64) {
  let setting = #"{"name": "colour", "values": [1, 2.5, "red"], "isOn": true}"#
  let text = Data("[\(Array(repeating: setting, count: 200).joined(separator: ", "))]".utf8)
  while cause_now() < end { keep(((try? JSONSerialization.jsonObject(with: text)) as? [Any])?.count ?? 0) }
}

@inline(never) private func encodeAnswers(until end: UInt64) {
  let orders = (0..<200).map { Order(id: $0, customer: "Ada", goods: ["tea", "pears"], price: Double($0) / 3) }
  while cause_now() < end { keep((try? JSONEncoder().encode(orders))?.count ?? 0) }
}

@inline(never) private func findTelephoneNumbers(until end: UInt64) {
  let text = String(repeating: "call +44 20 7946 0018 or 030 901820 before noon, ", count: 20)
  guard let pattern = try? NSRegularExpression(pattern: #"\+?[0-9]+( [0-9]+)+"#) else { return }
  while cause_now() < end {
    keep(pattern.numberOfMatches(in: text, range: NSRange(text.startIndex..., in: text)))
  }
}

@inline(never) private func matchInvoices(until end: UInt64) {
  let text = String(repeating: "invoice 2024-117 of 12.50 and ", count: 20)
  guard let pattern = try? Regex(#"invoice ([0-9]+)-([0-9]+) of ([0-9.]+)"#) else { return }
  while cause_now() < end { keep(text.matches(of: pattern).count) }
}

@inline(never) private func divideAddresses(until end: UInt64) {
  let text = String(repeating: "Ada Lovelace :: 12 St James's Square :: London :: ", count: 20)
  while cause_now() < end { keep(text.split(separator: " :: ").count) }
}

@inline(never) private func packLabels(until end: UInt64) {
  let data = Data((0..<200_000).map { UInt8(truncatingIfNeeded: $0) })
  while cause_now() < end { keep(data.base64EncodedString().utf8.count) }
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

@inline(never) private func renderInvoice(until end: UInt64) {
  while cause_now() < end {
    var text = ""
    for number in 0..<300 {
      text += "\(number + 1). \("green tea".uppercased()) at \(Double(number) * 1.25) EUR, "
      text.append(contentsOf: String(number).reversed())
    }
    keep(text.count)
  }
}

@inline(never) private func labelParcels(until end: UInt64) {
  while cause_now() < end {
    for number in 0..<100 { keep(String(format: "parcel %06d of %8.2f kg", number, Double(number) / 7).utf8.count) }
  }
}

private struct Person {
  var name: String
  var age: Int
}

@inline(never) private func sortCustomers(until end: UInt64) {
  let people = (0..<3000).map { Person(name: "customer \(($0 * 7919) % 3001)", age: $0 % 90) }
  while cause_now() < end {
    keep(people.sorted { $0.name == $1.name ? $0.age < $1.age : $0.name < $1.name }.first?.age ?? 0)
  }
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

@inline(never) private func groupSales(until end: UInt64) {
  let names = (0..<500).map { "article \($0 % 83)" }
  while cause_now() < end {
    var sales: [String: [Int]] = [:]
    for (number, name) in names.enumerated() { sales[name, default: []].append(number) }
    keep(sales.count)
  }
}

@inline(never) private func createBaskets(until end: UInt64) {
  while cause_now() < end {
    var baskets: [[Int]] = []
    for number in 0..<500 { baskets.append([number, number]) }
    keep(baskets.count)
  }
}

private final class Answer: Sendable {
  let isThere = Atomic(false)
}

@inline(never) private func spinForAnswer(_ answer: Answer) {
  while !answer.isThere.load(ordering: .acquiring) {}
  keep(1)
}
