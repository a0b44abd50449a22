import Catalogue
import Foundation

extension Kind {
  static let collections = [
    Kind("sortNumbers", sortNumbers), Kind("sortByPrice", with: ["PricedGood"], sortByPrice),
    Kind("sortReleases", with: ["ReleaseNumber"], sortReleases), Kind("fillDictionary", fillDictionary),
    Kind("countPlaces", with: ["GridPlace"], countPlaces), Kind("uniteSets", with: ["ColourTriple"], uniteSets),
    Kind("copyPayloads", with: ["MessagePayload"], copyPayloads), Kind("followNodes", with: ["ListNode"], followNodes),
    Kind("chainLazily", chainLazily), Kind("keepInOrder", with: ["QueuedJob", "OrderedList"], keepInOrder),
  ]
}

@inline(never)
private func sortNumbers(until end: UInt64) {
  var first = 0
  while isBefore(end) { first &+= (0..<2_000).map { ($0 &* 7919) % 2_003 }.sorted()[0] }
  keep(first)
}

private struct PricedGood {
  var name: String
  var price: Int
}

@inline(never)
private func sortByPrice(until end: UInt64) {
  let goods = (0..<500).map { PricedGood(name: "good number \($0 % 10)", price: $0 &* 7919 % 53) }
  var first = 0
  while isBefore(end) {
    first &+= goods.sorted { $0.price != $1.price ? $0.price < $1.price : $0.name < $1.name }[0].price
  }
  keep(first)
}

private struct ReleaseNumber: Comparable {
  var parts: [Int]

  static func < (left: ReleaseNumber, right: ReleaseNumber) -> Bool {
    for (a, b) in zip(left.parts, right.parts) where a != b { return a < b }
    return left.parts.count < right.parts.count
  }
}

@inline(never)
private func sortReleases(until end: UInt64) {
  let releases = (0..<300).map { ReleaseNumber(parts: [$0 % 3, $0 &* 31 % 17, $0 &* 7 % 101]) }
  var count = 0
  while isBefore(end) { count &+= releases.sorted().count &+ (releases.max()?.parts[0] ?? 0) }
  keep(count)
}

@inline(never)
private func fillDictionary(until end: UInt64) {
  var count = 0
  while isBefore(end) { count &+= Dictionary(uniqueKeysWithValues: (0..<500).map { ($0, $0) }).count }
  keep(count)
}

private struct GridPlace: Hashable {
  var name: String
  var row: Int
  var column: Int
}

@inline(never)
private func countPlaces(until end: UInt64) {
  let places = (0..<200).map { GridPlace(name: "place \($0 % 9)", row: $0 % 7, column: $0 % 11) }
  var count = 0
  while isBefore(end) {
    var counts: [GridPlace: Int] = [:]
    for place in places { counts[place, default: 0] += 1 }
    count &+= counts.count
  }
  keep(count)
}

private struct ColourTriple: Hashable {
  var red: UInt8
  var green: UInt8
  var blue: UInt8

  func hash(into hasher: inout Hasher) {
    hasher.combine(red)
    hasher.combine(green)
    hasher.combine(blue)
  }
}

@inline(never)
private func uniteSets(until end: UInt64) {
  let bytes = (0..<200).map { UInt8(truncatingIfNeeded: $0) }
  let warm = Set(bytes.map { ColourTriple(red: $0, green: $0 / 2, blue: 0) })
  let cold = Set(bytes.map { ColourTriple(red: 0, green: $0 / 2, blue: $0) })
  var count = 0
  while isBefore(end) { count &+= warm.union(cold).subtracting(warm).count }
  keep(count)
}

private enum MessagePayload {
  case text(String, [Int])
  case number(Int, String)
  indirect case nested(MessagePayload)

  var weight: Int {
    switch self {
    case .text(let text, let numbers): text.utf8.count &+ numbers.count
    case .number(let number, let name): number &+ name.utf8.count
    case .nested(let inner): inner.weight
    }
  }
}

@inline(never)
private func copyPayloads(until end: UInt64) {
  let payloads: [MessagePayload] = (0..<300)
    .map {
      switch $0 % 3 {
      case 0: .text("a text that is too long to be in line \($0)", [1, 2, 3])
      case 1: .number($0, "a name that is too long to be in line")
      default: .nested(.number($0, "another one that is too long"))
      }
    }
  var weight = 0
  while isBefore(end) {
    var copies = payloads
    copies.reverse()
    for copy in copies { weight &+= copy.weight }
  }
  keep(weight)
}

private final class ListNode {
  var value: Int
  var next: ListNode?

  init(_ value: Int, _ next: ListNode?) {
    self.value = value
    self.next = next
  }
}

@inline(never)
private func followNodes(until end: UInt64) {
  let nodes = (0..<300).map { ListNode($0, nil) }
  for (node, next) in zip(nodes, nodes.dropFirst()) { node.next = next }
  var sum = 0
  while isBefore(end) {
    var node: ListNode? = nodes[0]
    while let current = node {
      sum &+= current.value
      node = current.next
    }
    sum &+= nodes.filter { $0.value % 2 == 0 }.count
  }
  keep(sum)
}

@inline(never)
private func chainLazily(until end: UInt64) {
  var sum = 0
  while isBefore(end) {
    let chosen = (0..<3000).lazy.filter { $0 % 3 == 0 }.map { $0 &* 7 }
    let doubled = chosen.flatMap { [$0, $0 + 1] }.prefix(1500)
    sum &+= doubled.reduce(0) { $0 &+ $1 }
  }
  keep(sum)
}

private struct QueuedJob {
  var name: String
  var priority: Int
}

/// A generic type of another module that calls back.
@inline(never)
private func keepInOrder(until end: UInt64) {
  var count = 0
  while isBefore(end) {
    var jobs = OrderedList<QueuedJob> { $0.priority != $1.priority ? $0.priority < $1.priority : $0.name < $1.name }
    for number in 0..<100 { jobs.insert(QueuedJob(name: "job \(number)", priority: number &* 37 % 13)) }
    count &+= jobs.elements.count
  }
  keep(count)
}
