import Catalogue
import Foundation

extension Kind {
  static let calls = [
    Kind("measureFigures", with: ["PlaneFigure", "RoundFigure", "FlatFigure"], measureFigures),
    Kind("totalStock", with: ["StockItem", "totalPrice"], totalStock),
    Kind("followKeyPaths", with: ["AddressCard"], followKeyPaths),
    Kind("attemptOrders", attemptOrders), Kind("callDeep", with: ["enterLevel", "leaveLevel", "workBelow"], callDeep),
    Kind("applyClosures", applyClosures), Kind("castValues", with: ["CastTarget", "CastSource"], castValues),
  ]
}

private protocol PlaneFigure { func area(_ scale: Double) -> Double }

private struct RoundFigure: PlaneFigure {
  var radius: Double
  func area(_ scale: Double) -> Double { (1..<40).reduce(0) { $0 + radius * scale / Double($1) } }
}

private struct FlatFigure: PlaneFigure {
  var width: Double
  var height: Double
  var name = "flat"
  var tags = [1, 2]
  func area(_ scale: Double) -> Double { (1..<50).reduce(0) { $0 + width * height / (scale + Double($1)) } }
}

/// Existentials.
@inline(never)
private func measureFigures(until end: UInt64) {
  var figures: [any PlaneFigure] = []
  for number in 0..<100 {
    if number % 3 == 0 {
      figures.append(RoundFigure(radius: Double(number)))
    } else {
      figures.append(FlatFigure(width: Double(number), height: 2))
    }
  }
  var sum = 0.0
  while isBefore(end) { for figure in figures { sum += figure.area(1.5) } }
  keep(sum.isNaN ? 0 : 1)
}

private struct StockItem: Priced {
  var name: String
  var pieces: Int
  var cents: Int { pieces &* 99 &+ name.utf8.count }
}

/// A generic function of another module that calls a protocol's witness.
@inline(never)
private func totalStock(until end: UInt64) {
  let items = (0..<500).map { StockItem(name: "item number \($0) of the stock", pieces: $0) }
  var total = 0
  while isBefore(end) { total &+= totalPrice(items) &+ totalPrice(items.lazy.filter { $0.pieces % 2 == 0 }) }
  keep(total)
}

private struct AddressCard {
  struct Place {
    var street: String
    var number: Int
  }
  var name: String
  var place: Place
}

@inline(never)
private func followKeyPaths(until end: UInt64) {
  var cards = (0..<50).map { AddressCard(name: "n\($0)", place: .init(street: "a street", number: $0)) }
  let paths: [WritableKeyPath<AddressCard, Int>] = [\.place.number]
  let names: [KeyPath<AddressCard, String>] = [\.name, \.place.street]
  var sum = 0
  while isBefore(end) {
    for index in cards.indices {
      for path in paths { cards[index][keyPath: path] &+= 1 }
      for name in names { sum &+= cards[index][keyPath: name].utf8.count }
    }
  }
  keep(sum)
}

/// A generic helper of the program, which no kind lists as an identifier.
@inline(never)
private func untilItSucceeds<Result>(_ attempt: () throws -> Result?) rethrows -> Result {
  while true { if let result = try attempt() { return result } }
}

@inline(never)
private func attemptOrders(until end: UInt64) {
  var value = 1
  let last: Int = untilItSucceeds {
    for _ in 0..<2000 { value = value &* 1_103_515_245 &+ 12_345 }
    return isBefore(end) ? nil : value
  }
  keep(last)
}

@inline(never)
private func enterLevel(_ level: Int, _ end: UInt64) -> Int {
  level == 0 ? workBelow(end) : leaveLevel(level - 1, end) &+ level
}

@inline(never)
private func leaveLevel(_ level: Int, _ end: UInt64) -> Int {
  level == 0 ? workBelow(end) : enterLevel(level - 1, end) &* 3 &+ level
}

@inline(__always)
private func workBelow(_ end: UInt64) -> Int {
  var value = 1
  while isBefore(end) { for _ in 0..<2000 { value = value &* 69_069 &+ 1 } }
  return value
}

/// A chain of two hundred calls.
@inline(never)
private func callDeep(until end: UInt64) { keep(enterLevel(200, end)) }

@inline(never)
private func applyClosures(until end: UInt64) {
  let steps: [(Int) -> Int] = [
    { $0 &+ 1 }, { $0 &* 3 }, { $0 ^ 0x55 }, { (value: Int) -> Int in (0..<20).reduce(value) { $0 &+ $1 } },
  ]
  var value = 0
  while isBefore(end) { for _ in 0..<100 { for step in steps { value = step(value) } } }
  keep(value)
}

private protocol CastTarget { var weight: Int { get } }

private struct CastSource: CastTarget {
  var weight: Int
  var name = "a name that is too long to be in line"
}

@inline(never)
private func castValues(until end: UInt64) {
  let values = (0..<200).map { number -> Any in
    if number % 2 == 0 { CastSource(weight: number) } else { "text \(number)" }
  }
  var sum = 0
  while isBefore(end) {
    for value in values {
      if let target = value as? any CastTarget { sum &+= target.weight }
      if let text = value as? String { sum &+= text.utf8.count }
    }
  }
  keep(sum)
}
