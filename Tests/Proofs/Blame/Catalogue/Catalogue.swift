import Foundation

// Generic code that another module of the same package calls.

/// A type with a price.
public protocol Priced {
  var cents: Int { get }
}

/// Returns the sum of the prices of `items`.
@inline(never)
public func totalPrice<Items: Sequence>(_ items: Items) -> Int where Items.Element: Priced {
  var total = 0
  for item in items { total &+= item.cents }
  return total
}

/// Stores values as JSON.
public struct Archive<Entry: Codable> {
  private var stored: [Data] = []

  /// Creates an empty archive.
  public init() {}

  /// Adds `entry`.
  public mutating func add(_ entry: Entry) throws { stored.append(try JSONEncoder().encode(entry)) }

  /// Returns all entries, decoded.
  public func entries() throws -> [Entry] { try stored.map { try JSONDecoder().decode(Entry.self, from: $0) } }
}

/// A sorted list.
public struct OrderedList<Element> {
  /// The elements.
  public private(set) var elements: [Element] = []
  private let isBefore: (Element, Element) -> Bool

  /// Creates an empty list sorted by `isBefore`.
  public init(by isBefore: @escaping (Element, Element) -> Bool) { self.isBefore = isBefore }

  /// Inserts `element` at its sorted position.
  public mutating func insert(_ element: Element) {
    var (low, high) = (0, elements.count)
    while low < high {
      let middle = (low + high) / 2
      if isBefore(elements[middle], element) { low = middle + 1 } else { high = middle }
    }
    elements.insert(element, at: low)
  }
}
