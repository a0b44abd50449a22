import Catalogue
import Foundation

extension Kind {
  static let coding = [
    Kind("decodeOrders", with: ["IncomingOrder"], decodeOrders),
    Kind("encodeInvoices", with: ["OutgoingInvoice"], encodeInvoices),
    Kind("archiveEntries", with: ["ArchivedNote", "Archive"], archiveEntries),
    Kind("serializeObjects", serializeObjects),
  ]
}

private struct IncomingOrder: Decodable {
  var number: Int
  var title: String
  var price: Double
  var tags: [String]

  enum CodingKeys: String, CodingKey { case number, title, price, tags }

  init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: CodingKeys.self)
    number = try values.decode(Int.self, forKey: .number)
    title = try values.decode(String.self, forKey: .title).uppercased()
    price = try values.decodeIfPresent(Double.self, forKey: .price) ?? 0
    tags = try values.decode([String].self, forKey: .tags).map { $0.trimmingCharacters(in: .whitespaces) }
  }
}

@inline(never)
private func decodeOrders(until end: UInt64) {
  let text = (0..<20)
    .map { #"{"number": \#($0), "title": "order \#($0)", "price": \#($0).5, "tags": [" a", "b ", "c"]}"# }
    .joined(separator: ",")
  let data = Data("[\(text)]".utf8)
  let decoder = JSONDecoder()
  var count = 0
  while isBefore(end) { count &+= (try? decoder.decode([IncomingOrder].self, from: data))?.count ?? 0 }
  keep(count)
}

private struct OutgoingInvoice: Encodable {
  var number: Int
  var lines: [String]

  enum CodingKeys: String, CodingKey { case number, lines, total }

  func encode(to encoder: any Encoder) throws {
    var values = encoder.container(keyedBy: CodingKeys.self)
    try values.encode(number, forKey: .number)
    try values.encode(lines.map { $0 + ": " + String(number) }, forKey: .lines)
    try values.encode(lines.reduce(0) { $0 + $1.utf8.count }, forKey: .total)
  }
}

@inline(never)
private func encodeInvoices(until end: UInt64) {
  let invoices = (0..<20).map { OutgoingInvoice(number: $0, lines: ["first", "second", "third", "fourth"]) }
  let encoder = JSONEncoder()
  var length = 0
  while isBefore(end) { length &+= (try? encoder.encode(invoices))?.count ?? 0 }
  keep(length)
}

private struct ArchivedNote: Codable {
  var title: String
  var pages: [Int]
}

/// Codable values in generic code of another module.
@inline(never)
private func archiveEntries(until end: UInt64) {
  var count = 0
  while isBefore(end) {
    var archive = Archive<ArchivedNote>()
    for number in 0..<4 { try? archive.add(ArchivedNote(title: "note \(number)", pages: [1, 2, 3])) }
    count &+= (try? archive.entries())?.count ?? 0
  }
  keep(count)
}

@inline(never)
private func serializeObjects(until end: UInt64) {
  let inner: [String: Any] = ["b": 2.5, "c": [true, false]]
  let object: [String: Any] = ["name": "a", "values": [1, 2, 3], "inner": inner]
  var count = 0
  while isBefore(end) {
    guard let data = try? JSONSerialization.data(withJSONObject: object),
      let back = try? JSONSerialization.jsonObject(with: data) as? [String: Any]
    else { return }
    count &+= back.count
  }
  keep(count)
}
