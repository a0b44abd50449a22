import Foundation

// Generic code that another module of the same package calls.

/// What can be priced.
public protocol Priced {
  var cents: Int { get }
}

/// The sum of prices.
@inline(never)
public func totalPrice<Items: Sequence>(_ items: Items) -> Int where Items.Element: Priced {
  var total = 0
  for item in items { total &+= item.cents }
  return total
}

/// Keeps values as JSON.
public struct Archive<Entry: Codable> {
  private var stored: [Data] = []

  /// An empty archive.
  public init() {}

  /// Adds `entry`.
  public mutating func add(_ entry: Entry) throws { stored.append(try JSONEncoder().encode(entry)) }

  /// Everything that was added.
  public func entries() throws -> [Entry] { try stored.map { try JSONDecoder().decode(Entry.self, from: $0) } }
}

/// A list that is kept in order.
public struct OrderedList<Element> {
  /// The elements.
  public private(set) var elements: [Element] = []
  private let isBefore: (Element, Element) -> Bool

  /// An empty list whose elements are in the order of `isBefore`.
  public init(by isBefore: @escaping (Element, Element) -> Bool) { self.isBefore = isBefore }

  /// Puts `element` into its place.
  public mutating func insert(_ element: Element) {
    var (low, high) = (0, elements.count)
    while low < high {
      let middle = (low + high) / 2
      if isBefore(elements[middle], element) { low = middle + 1 } else { high = middle }
    }
    elements.insert(element, at: low)
  }
}
