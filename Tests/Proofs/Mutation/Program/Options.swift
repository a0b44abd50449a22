import Foundation

/// Options of `tools/mutate`.
struct Options {
  var count = 300
  var seed: UInt64 = 1
  var patience = 120.0
  var root = FileManager.default.currentDirectoryPath
  var folders = ["Sources", "tools/culprit", "CSupport/CUnwind"]
  var isList = false
  var isLeft = false

  private static let usage =
    "Usage: tools/mutate [--faults N] [--seed N] [--patience SECONDS] [--list] [--left] [--package FOLDER] [FOLDER]..."

  /// Parses `arguments`.
  ///
  /// - Throws: ``MutationError`` if an argument is invalid.
  init(_ arguments: [String]) throws {
    var rest = arguments[...]
    var folders: [String] = []
    while let option = rest.popFirst() {
      func number<Number: LosslessStringConvertible>(_ type: Number.Type) throws -> Number {
        let text = rest.popFirst()
        guard let value = text.flatMap(Number.init) else {
          throw MutationError("\(option) takes a number, not \(text ?? "nothing")\n\(Self.usage)")
        }
        return value
      }
      switch option {
      case "--faults": count = try number(Int.self)
      case "--seed": seed = try number(UInt64.self)
      case "--patience": patience = try number(Double.self)
      case "--package":
        guard let folder = rest.popFirst() else { throw MutationError("--package takes a folder\n\(Self.usage)") }
        root = URL(fileURLWithPath: folder).standardizedFileURL.path
        self.folders = ["Sources"]
      case "--list": isList = true
      case "--left": isLeft = true
      case _ where option.hasPrefix("-"): throw MutationError("there is no option \(option)\n\(Self.usage)")
      default: folders.append(option.hasSuffix("/") ? String(option.dropLast()) : option)
      }
    }
    if !folders.isEmpty { self.folders = folders }
    guard FileManager.default.fileExists(atPath: root + "/Package.swift") else {
      throw MutationError("there is no package in \(root)")
    }
    guard patience > 0 else { throw MutationError("--patience must be more than 0, not \(patience)") }
    guard (1...3000).contains(count) else { throw MutationError("--faults must be from 1 to 3000, not \(count)") }
    for folder in folders where !FileManager.default.fileExists(atPath: root + "/" + folder) {
      throw MutationError("there is no folder \(folder) in \(root)")
    }
  }
}
