import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import CulpritSymbols

/// A temporary directory for compiled files.
final class Fixture: Sendable {
  private let place = TemporaryDirectory()
  var directory: String { place.wrappedValue }

  func path(_ name: String) -> String { directory + "/" + name }

  func write(_ text: String, _ name: String) throws {
    try text.write(toFile: path(name), atomically: true, encoding: .utf8)
  }

  /// Runs `command` in a shell in the directory. Returns standard output.
  @discardableResult
  func run(_ command: String) throws -> String {
    let child = try ChildProcess("/bin/sh", ["-c", command], directory: directory, keepsErrors: true)
    guard child.hasExited, child.status == 0 else { throw FixtureError(description: "\(command): \(child.errors)") }
    return child.output
  }

  func address(of name: String, in file: String) throws -> FileAddress {
    // nm of the binutils reads only the host's files.
    let line = try run("\"\(toolchain())/llvm-nm\" \(file)").split(separator: "\n")
      .first { $0.split(separator: " ").last == Substring(name) }
    return FileAddress(try #require(line.flatMap { UInt64($0.prefix { $0 != " " }, radix: 16) }))
  }

  func toolchain() throws -> String {
    try run("dirname \"$(realpath \"$(command -v swift)\")\"").trimmingCharacters(in: .newlines)
  }

  /// Returns the calls at `addresses` from llvm-symbolizer, innermost first, as lines "name file:line".
  func callsByLLVM(_ addresses: [UInt64], in file: String) throws -> [[String]] {
    try write(addresses.map { "0x" + String($0, radix: 16) + "\n" }.joined(), "addresses")
    let options = "--output-style=GNU --no-demangle -f -i -a"
    let text = try run("\"\(toolchain())/llvm-symbolizer\" \(options) -e \(file) <addresses")
    var calls: [[String]] = []
    var lines = text.split(separator: "\n")[...]
    while let line = lines.popFirst() {
      if line.hasPrefix("0x") {
        calls.append([])
      } else if !calls.isEmpty, let place = lines.popFirst() {
        calls[calls.count - 1].append("\(line) \(place.prefix { $0 != " " })")
      }
    }
    return calls
  }

  /// Describes the symbol `name` of `file`. Debug information is also searched for in this directory.
  func describe(_ name: String, in file: String, addressFrom: String? = nil) throws -> AddressDescription {
    let address = try address(of: name, in: addressFrom ?? file)
    return try symbolizer(file).describe(address)
  }

  func symbolizer(_ file: String) throws -> AddressSymbolizer {
    try AddressSymbolizer(path: path(file), search: DebugSearch(directories: [directory]))
  }
}

struct FixtureError: Error, CustomStringConvertible {
  var description: String
}

/// `marker` is inside two inlined calls. The tests use these line numbers.
let nestedCalls = """
  namespace shop {
  inline __attribute__((always_inline)) int inner(int value) {
    asm volatile(".globl marker\\nmarker: nop" : "+r"(value));
    return value * 3;
  }
  struct Index {
    int find(int value);
    inline __attribute__((always_inline)) int middle(int value) {
      return inner(value + 1);
    }
  };
  __attribute__((noinline)) int Index::find(int value) {
    value *= 7;
    return middle(value) + 2;
  }
  }
  int main(int count, char **) {
    shop::Index index;
    return index.find(count);
  }
  """

let nestedNames = ["_ZN4shop5innerEi", "_ZN4shop5Index6middleEi", "_ZN4shop5Index4findEi"]
let nestedLines = [3, 9, 14]
