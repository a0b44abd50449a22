import CulpritStallRecord
import Glibc

/// The merged functions of a file, and the original functions of calls.
///
/// Swift's optimizer merges functions that differ only in constants into one (`…Tm`) with the constants as arguments.
/// Each original function becomes a short forwarder, and direct calls pass the constants. The original function of a
/// call is known if the call goes to a forwarder, or passes the constants of exactly one forwarder.
final class MergedFunctions {
  private struct Forwarder {
    var name: TextReference
    var constants: [Int32: MachineCode.Constant]
  }

  private let image: ElfImage
  private let codeSections: [ElfImage.Section]
  private let table: SymbolTable
  /// Whether debug information shows that the function at an address is in source code.
  private let isWritten: (UInt64) -> Bool
  /// The forwarders that directly call the merged function at an address.
  private var forwarders: [UInt64: [Forwarder]] = [:]
  /// The merged function's address, by the address of a forwarder.
  private var forwarded: [UInt64: UInt64] = [:]
  private let hasDebugInformation: Bool

  /// Maximum size of a forwarder. Larger functions do more than forward.
  private static let forwarderBytesMax: UInt64 = 160
  /// Maximum size of a caller. Decoding larger functions takes too long.
  private static let callerBytesMax: UInt64 = 1 << 18

  /// Finds the merged functions of `image`, with symbols in `table`; `nil` if there are none.
  init?(
    _ image: ElfImage,
    _ table: SymbolTable,
    hasDebugInformation: Bool,
    isWritten: @escaping (UInt64) -> Bool
  ) {
    guard image.machine == ElfFormat.Machine.amd64 || image.machine == ElfFormat.Machine.aarch64 else { return nil }
    var merged: Set<UInt64> = []
    table.forEach { range, name in if Self.isMerged(name) { merged.insert(range.start) } }
    guard !merged.isEmpty else { return nil }
    self.image = image
    codeSections = image.sections.filter(\.isCode)
    self.table = table
    self.hasDebugInformation = hasDebugInformation
    self.isWritten = isWritten
    var candidates: [(range: AddressRange, name: TextReference)] = []
    table.forEach { range, name in
      guard range.end - range.start <= Self.forwarderBytesMax, !Self.isMerged(name), name.bytes.starts(with: "$s".utf8)
      else { return }
      candidates.append((range, name))
    }
    var jumps: [(start: UInt64, name: TextReference, target: UInt64, constants: [Int32: MachineCode.Constant])] = []
    // A forwarder can jump to another forwarder.
    var targets = Dictionary(uniqueKeysWithValues: merged.map { ($0, $0) })
    var known = 0
    while targets.count > known {
      known = targets.count
      candidates.removeAll { range, name in
        // Decoding takes much longer than this test.
        guard mayJump(range, to: targets) else { return false }
        guard let jump = forwardingJump(range) else { return true }
        guard let target = targets[jump.target] else { return false }
        jumps.append((range.start, name, jump.target, jump.registers))
        if targets[range.start] == nil { targets[range.start] = target }
        return true
      }
    }
    for jump in jumps {
      // Debug information is read only for forwarders to merged functions. Reading it for thousands of other functions
      // would take long.
      guard let target = targets[jump.start], !isWritten(jump.start) else { continue }
      forwarded[jump.start] = target
      if merged.contains(jump.target) {
        forwarders[target, default: []].append(Forwarder(name: jump.name, constants: jump.constants))
      }
    }
  }

  /// Returns the name of the original function called before `next`, and the start of the merged function with its
  /// code; `nil` if the call is ambiguous or calls no merged function.
  func function(calledBefore next: UInt64) -> (name: TextReference, merged: UInt64)? {
    guard let caller = table.symbol(at: FileAddress(next - 1)),
      caller.range.end - caller.range.start <= Self.callerBytesMax,
      let target = callTarget(before: next)
    else { return nil }
    if let merged = forwarded[target], let name = table.symbol(at: FileAddress(target))?.name { return (name, merged) }
    guard let candidates = forwarders[target], hasDebugInformation, isWritten(caller.range.start),
      let call = code(caller.range)?.transfers()?.first(where: { $0.isCall && $0.next == next })
    else { return nil }
    let matching = candidates.filter { candidate in
      !candidate.constants.isEmpty && candidate.constants.allSatisfy { call.registers[$0.key] == $0.value }
    }
    guard let only = matching.first, matching.count == 1 else { return nil }
    return (only.name, target)
  }

  private func callTarget(before next: UInt64) -> UInt64? {
    let length: UInt64 = image.machine == ElfFormat.Machine.aarch64 ? 4 : 5
    guard next > length, let code = code(AddressRange(start: next - length, end: next)),
      let transfer = code.transfers()?.first, transfer.isCall, transfer.next == next
    else { return nil }
    return transfer.target
  }

  /// Returns the final jump of the forwarder in `range`. A function in source code that ends with a call of a merged
  /// function looks equal, but has debug information.
  private func forwardingJump(_ range: AddressRange) -> MachineCode.Transfer? {
    guard let code = code(range), let transfers = code.transfers() else { return nil }
    let leaving = transfers.filter { !range.contains($0.target) }
    guard let jump = leaving.first, jump.isLast else { return nil }
    var result = jump
    result.registers = jump.registers.filter { code.argumentRegisters.contains($0.key) }
    return result
  }

  private func mayJump(_ range: AddressRange, to targets: [UInt64: UInt64]) -> Bool {
    guard let bytes = bytes(range)?.ordered(isBigEndian: false) else { return false }
    func isTarget(_ next: Int, _ distance: Int64) -> Bool {
      targets[range.start &+ UInt64(next) &+ UInt64(bitPattern: distance)] != nil
    }
    if image.machine == ElfFormat.Machine.aarch64 {
      var cursor = bytes.cursor()
      while cursor.remaining >= 4 {
        let place = bytes.count - cursor.remaining
        let word = cursor.u32()
        // b: the lower 26 bits are the distance in words.
        if word >> 26 == 0b000101, isTarget(place, Int64(Int32(bitPattern: word << 6) >> 4)) { return true }
      }
      return false
    }
    /// Whether the code jumps to a target by a distance of `width` bytes after `operation`.
    func jumps(_ operation: Int32, _ width: Int) -> Bool {
      var place = 0
      // SAFETY: memchr reads no byte after the last place of `operation`, from which `width` bytes are left.
      while place + width < bytes.count,
        let found = memchr(bytes.base + place, operation, bytes.count - place - width)
      {
        place = UnsafeRawPointer(found) - bytes.base + 1
        var cursor = bytes.cursor(at: place)
        let distance = width == 1 ? Int64(cursor.i8()) : Int64(Int32(bitPattern: cursor.u32()))
        if isTarget(place + width, distance) { return true }
      }
      return false
    }
    // jmp rel32 and jmp rel8.
    return jumps(0xe9, 4) || jumps(0xeb, 1)
  }

  private func code(_ range: AddressRange) -> MachineCode? {
    bytes(range).map { MachineCode($0.array, start: range.start, isArm: image.machine == ElfFormat.Machine.aarch64) }
  }

  private func bytes(_ range: AddressRange) -> Bytes? {
    for section in codeSections where section.address <= range.start && range.end <= section.end ?? 0 {
      return image.raw(section)?.part(range.start - section.address, range.end - range.start)
    }
    return nil
  }

  private static func isMerged(_ name: TextReference) -> Bool {
    guard name.count > 4 else { return false }
    // SAFETY: the name has `count` bytes, and the indices are below that.
    let bytes = UnsafeRawBufferPointer(start: name.base, count: name.count)
    return bytes[0] == UInt8(ascii: "$") && bytes[1] == UInt8(ascii: "s") && bytes[name.count - 2] == UInt8(ascii: "T")
      && bytes[name.count - 1] == UInt8(ascii: "m")
  }
}
