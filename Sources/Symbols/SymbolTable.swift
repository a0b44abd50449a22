import CCulpritLinux
import CulpritStallRecord

/// The symbols of a file that name code, from its `.symtab` or `.dynsym`.
final class SymbolTable {
  private let index: SymbolIndex
  private let names: Bytes
  private let image: ElfImage  // keeps `names` valid
  private(set) lazy var main = index.globalFunction { Self.isMain(names, $0) }

  var count: Int { index.count }

  var byteCount: Int { index.byteCount }

  /// Reads the symbols of `image`, if any. `code` is the file with the code, if different.
  init(_ image: ElfImage, code: ElfImage? = nil) {
    self.image = image
    var chosen: ElfImage.Section?
    for section in image.sections where section.type != ElfFormat.noBits {
      // .symtab contains all of .dynsym, and the local functions.
      if section.type == ElfFormat.symbolTable { chosen = section }
      if section.type == ElfFormat.dynamicSymbolTable, chosen == nil { chosen = section }
    }
    let entryBytes = ElfSymbol.byteCount(is64: image.is64)
    guard let chosen, chosen.entrySize == entryBytes, let table = image.raw(chosen),
      image.sections.indices.contains(Int(chosen.link)), let names = image.raw(image.sections[Int(chosen.link)])
    else {
      self.names = .none
      index = SymbolIndex([], limit: { $0 })
      return
    }
    self.names = names
    let bounds = CodeBounds(code ?? image)
    let addresses = SymbolAddresses(code ?? image)
    var symbols: [SymbolIndex.Symbol] = []
    symbols.reserveCapacity(table.count / entryBytes / 2)
    var file: UInt32 = 0
    var cursor = table.cursor()
    while cursor.remaining >= entryBytes {
      clinux_fork_yield()
      let symbol = ElfSymbol(&cursor, is64: image.is64)
      let (name, section) = (symbol.name, symbol.section)
      // The symbol of a source file precedes its local symbols.
      if symbol.info == 4 { file = name }
      guard section != 0, section < 0xff00 || section == 0xffff, symbol.value != 0, name != 0,
        let rank = Self.rank(symbol)
      else { continue }
      let start = addresses.code(of: symbol)
      guard bounds.end(at: start) > start, rank != .label || !Self.isMark(names, name) else { continue }
      let (end, overflow) = start.addingReportingOverflow(symbol.size)
      symbols.append(
        SymbolIndex.Symbol(
          start: start,
          end: overflow ? start : end,
          rank: rank,
          name: name,
          file: symbol.binding == 0 ? file : 0
        )
      )
    }
    index = SymbolIndex(symbols, limit: bounds.end, isReserved: { Self.isReserved(names, $0) })
  }

  func symbol(at address: FileAddress, preferring preferred: TextReference? = nil) -> SymbolMatch? {
    guard let symbol = index.symbol(at: address), let name = names.text(at: Int(symbol.name)) else { return nil }
    var match = SymbolMatch(name: name, range: AddressRange(start: symbol.start, end: symbol.end))
    if symbol.file != 0 { match.file = names.text(at: Int(symbol.file)) }
    var chosen = symbol.name
    if symbol.hasOtherNames, let preferred, name != preferred {
      for other in index.otherNames(at: symbol.start) {
        if let name = names.text(at: Int(other)), name == preferred {
          match.name = name
          chosen = other
          break
        }
      }
    }
    if Self.isReserved(names, chosen) {
      let isBestPublic = !Self.isReserved(names, symbol.name) && symbol.rank < .localFunction
      let open = isBestPublic ? symbol.name : index.publicName(at: symbol.start)
      match.publicName = open.flatMap { names.text(at: Int($0)) }
    }
    return match
  }

  /// Returns the other, equally good names of the code of `symbol`.
  func otherNames(of symbol: SymbolMatch) -> [TextReference] {
    guard let known = index.symbol(at: FileAddress(symbol.range.start)), known.start == symbol.range.start,
      known.hasOtherNames
    else { return [] }
    return ([known.name] + index.otherNames(at: known.start)).compactMap { names.text(at: Int($0)) }
      .filter { $0 != symbol.name && $0 != symbol.publicName }
  }

  func forEach(_ visit: (AddressRange, TextReference) -> Void) {
    index.forEach { symbol in
      guard let name = names.text(at: Int(symbol.name)) else { return }
      visit(AddressRange(start: symbol.start, end: symbol.end), name)
    }
  }

  private static func rank(_ symbol: ElfSymbol) -> SymbolIndex.Symbol.Rank? {
    switch symbol.type {
    case 2, 10:
      switch symbol.binding {
      case 1: return .globalFunction
      case 2: return .weakFunction
      default: return .localFunction
      }
    case 0: return .label
    default: return nil
    }
  }

  /// Whether the name begins with two underscores, which C reserves for its implementation (C11, 7.1.3).
  private static func isReserved(_ names: Bytes, _ name: UInt32) -> Bool {
    var cursor = names.cursor(at: Int(name))
    return cursor.u8() == UInt8(ascii: "_") && cursor.u8() == UInt8(ascii: "_") && !cursor.hasFailed
  }

  private static func isMain(_ names: Bytes, _ name: UInt32) -> Bool {
    var cursor = names.cursor(at: Int(name))
    return cursor.u8() == UInt8(ascii: "m") && cursor.u8() == UInt8(ascii: "a") && cursor.u8() == UInt8(ascii: "i")
      && cursor.u8() == UInt8(ascii: "n") && cursor.u8() == 0 && !cursor.hasFailed
  }

  /// Whether only assemblers and disassemblers use the name: `.L2`, or for MIPS `$L2`. Also marks for kinds of code and
  /// data, such as `$x` and `$d`, with any ending after a dot (ELF for the Arm Architecture, 5.5.5).
  private static func isMark(_ names: Bytes, _ name: UInt32) -> Bool {
    var cursor = names.cursor(at: Int(name))
    let (first, second, third) = (cursor.u8(), cursor.u8(), cursor.u8())
    if second == UInt8(ascii: "L") { return first == UInt8(ascii: ".") || first == UInt8(ascii: "$") }
    let isLetter = second >= UInt8(ascii: "a") && second <= UInt8(ascii: "z")
    return first == UInt8(ascii: "$") && isLetter && (third == 0 || third == UInt8(ascii: "."))
  }
}

/// The code addresses of symbols whose values are not code addresses.
private struct SymbolAddresses {
  private let machine: UInt16
  /// The function descriptors of the first ABI for 64-bit PowerPC, and their address range.
  private var descriptors: (range: AddressRange, bytes: Bytes)?

  init(_ image: ElfImage) {
    machine = image.machine
    guard machine == ElfFormat.Machine.powerPC64,
      let section = image.sections.first(where: { $0.name == ".opd" && $0.type != ElfFormat.noBits }),
      let end = section.end, let bytes = image.raw(section)
    else { return }
    descriptors = (AddressRange(start: section.address, end: end), bytes)
  }

  @inline(__always) func code(of symbol: ElfSymbol) -> UInt64 {
    switch machine {
    // The lowest bit of a function's address selects the instruction set.
    case ElfFormat.Machine.arm, ElfFormat.Machine.mips: return symbol.type == 2 ? symbol.value & ~1 : symbol.value
    case ElfFormat.Machine.powerPC64: return described(symbol.value)
    default: return symbol.value
    }
  }

  private func described(_ address: UInt64) -> UInt64 {
    guard let descriptors, descriptors.range.contains(address) else { return address }
    var cursor = descriptors.bytes.cursor(at: Int(address - descriptors.range.start))
    let code = cursor.u64()
    return cursor.hasFailed ? address : code
  }
}

struct CodeBounds {
  private let ranges: [(start: UInt64, end: UInt64)]

  init(_ image: ElfImage) {
    var ranges: [(start: UInt64, end: UInt64)] = []
    for section in image.sections where section.isCode {
      if let end = section.end, end > section.address { ranges.append((section.address, end)) }
    }
    if ranges.isEmpty {
      for segment in image.segments where segment.type == ElfFormat.loadSegment && segment.flags & 1 != 0 {
        let (end, overflow) = segment.address.addingReportingOverflow(segment.memorySize)
        if !overflow, end > segment.address { ranges.append((segment.address, end)) }
      }
    }
    self.ranges = ranges.sorted { $0.end - $0.start > $1.end - $1.start }
  }

  /// Returns the end of the code that contains `address`, or `address` if it is not in code.
  func end(at address: UInt64) -> UInt64 {
    for range in ranges where range.start <= address && address < range.end { return range.end }
    return address
  }
}
