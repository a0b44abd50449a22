import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import CulpritSymbols

/// A directory with files that tests compile, gone at the end.
final class Fixture {
  let directory: String

  init() throws {
    directory = NSTemporaryDirectory() + "culprit-symbols-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: directory) }

  func path(_ name: String) -> String { directory + "/" + name }

  func write(_ text: String, _ name: String) throws {
    try text.write(toFile: path(name), atomically: true, encoding: .utf8)
  }

  /// Runs `command` by the shell in the directory. Returns its standard output.
  @discardableResult
  func run(_ command: String) throws -> String {
    let child = try ChildProcess("/bin/sh", ["-c", command], directory: directory, keepsErrors: true)
    guard child.hasExited, child.status == 0 else { throw FixtureError(description: "\(command): \(child.errors)") }
    return child.output
  }

  func address(of name: String, in file: String) throws -> FileAddress {
    // That of the binutils knows the machine that it runs on.
    let line = try run("\"\(toolchain())/llvm-nm\" \(file)").split(separator: "\n")
      .first { $0.split(separator: " ").last == Substring(name) }
    return FileAddress(try #require(line.flatMap { UInt64($0.prefix { $0 != " " }, radix: 16) }))
  }

  /// The directory of the toolchain's programs, wherever `swift` is.
  func toolchain() throws -> String {
    try run("dirname \"$(realpath \"$(command -v swift)\")\"").trimmingCharacters(in: .newlines)
  }

  /// The calls at `addresses` as llvm-symbolizer of the toolchain has them: lines "name file:line", the innermost first.
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

  /// What is known of the symbol `name` of `file`, looking for debug information in this directory too.
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

/// A program in which `marker` is inside two inlined calls. The line numbers below are those of its lines.
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

/// What the calls at `marker` must be.
let nestedNames = ["_ZN4shop5innerEi", "_ZN4shop5Index6middleEi", "_ZN4shop5Index4findEi"]
let nestedLines = [3, 9, 14]
