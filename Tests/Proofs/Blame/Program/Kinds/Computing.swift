import Catalogue
import Foundation
import NativeWork

extension Kind {
  static let computing = [
    Kind("spinOnIntegers", spinOnIntegers), Kind("sumBytes", sumBytes), Kind("addDecimals", addDecimals),
    Kind("formatDates", formatDates), Kind("packBytes", packBytes),
    Kind("walkTree", with: ["TreeBranch"], walkTree),
    Kind("loadPriceTables", with: ["fillPriceTable"] + (0..<8).map { "priceTable\($0)" }, runsMax: 8, loadPriceTables),
    Kind("planRoute", with: ["relaxEdges", "forgetRoute"], planRoute),
  ]
}

@inline(never)
private func spinOnIntegers(until end: UInt64) {
  var value: UInt64 = 1
  while isBefore(end) { for _ in 0..<10_000 { value = value &* 6_364_136_223_846_793_005 &+ 1 } }
  keep(Int(truncatingIfNeeded: value))
}

@inline(never)
private func sumBytes(until end: UInt64) {
  let bytes = [UInt8](repeating: 7, count: 4096)
  var hash: UInt64 = 0
  while isBefore(end) { for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 } }
  keep(Int(truncatingIfNeeded: hash))
}

@inline(never)
private func addDecimals(until end: UInt64) {
  var total = Decimal(0)
  let tax = Decimal(119) / 100
  while isBefore(end) {
    for cents in 1...50 { total += Decimal(cents) / 100 * tax }
    if total > 1_000_000 { total = 0 }
  }
  keep(NSDecimalNumber(decimal: total).intValue)
}

@inline(never)
private func formatDates(until end: UInt64) {
  let style = Date.ISO8601FormatStyle()
  var length = 0
  var seconds = 0.0
  while isBefore(end) {
    seconds += 86_461
    length &+= Date(timeIntervalSince1970: seconds).formatted(style).utf8.count
  }
  keep(length)
}

@inline(never)
private func packBytes(until end: UInt64) {
  let bytes = Data((0..<3000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
  var length = 0
  while isBefore(end) {
    let text = bytes.base64EncodedString()
    length &+= Data(base64Encoded: text)?.count ?? 0
  }
  keep(length)
}

/// Recursion.
private indirect enum TreeBranch {
  case leaf(Int)
  case fork(TreeBranch, TreeBranch)

  static func grown(_ depth: Int) -> TreeBranch {
    depth == 0 ? .leaf(1) : .fork(grown(depth - 1), grown(depth - 1))
  }

  var sum: Int {
    switch self {
    case .leaf(let value): value
    case .fork(let left, let right): left.sum &+ right.sum
    }
  }
}

@inline(never)
private func walkTree(until end: UInt64) {
  let tree = TreeBranch.grown(12)
  var sum = 0
  while isBefore(end) { sum &+= tree.sum }
  keep(sum)
}

// Global initialisers, each of which runs once.
private let priceTable0 = fillPriceTable()
private let priceTable1 = fillPriceTable()
private let priceTable2 = fillPriceTable()
private let priceTable3 = fillPriceTable()
private let priceTable4: [Int] = { fillPriceTable() }()
private let priceTable5: [Int] = { fillPriceTable() }()
private let priceTable6: [Int] = { fillPriceTable() }()
private let priceTable7: [Int] = { fillPriceTable() }()

private func fillPriceTable() -> [Int] {
  let end = native_deadline()
  var prices = [Int](repeating: 1, count: 1000)
  while isBefore(end) { for index in 1..<prices.count { prices[index] = (prices[index - 1] &* 31 &+ index) % 9973 } }
  return prices
}

private let nextPriceTable = Counter()

@inline(never)
private func loadPriceTables(until end: UInt64) {
  native_set_deadline(end)
  let table =
    switch nextPriceTable.take() {
    case 0: priceTable0
    case 1: priceTable1
    case 2: priceTable2
    case 3: priceTable3
    case 4: priceTable4
    case 5: priceTable5
    case 6: priceTable6
    default: priceTable7
    }
  keep(table[999])
}

/// Local functions and `defer`.
@inline(never)
private func planRoute(until end: UInt64) {
  var distances = [Int](repeating: 1 << 30, count: 200)
  var forgotten = 0
  func relaxEdges(from node: Int) {
    for step in 1...9 {
      let next = (node * step + 7) % distances.count
      distances[next] = min(distances[next], distances[node] &+ step)
    }
  }
  func forgetRoute() {
    for index in distances.indices { distances[index] = 1 << 30 }
    forgotten += 1
  }
  while isBefore(end) {
    defer { forgetRoute() }
    distances[0] = 0
    for node in distances.indices { relaxEdges(from: node) }
  }
  keep(forgotten)
}
