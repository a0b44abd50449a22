import Glibc

final class SplitUnits {
  private let program: ElfImage
  private lazy var package = SplitPackage(beside: program)
  private var opened: [String: Result<DwarfFile, ElfError>] = [:]

  init(program: ElfImage) { self.program = program }

  func unit(for skeleton: DwarfUnit) -> Result<DwarfUnit, ElfError> {
    guard let id = skeleton.splitID, let name = skeleton.splitName?.string else {
      return .failure(ElfError(text: "a split unit has no file name"))
    }
    if let found = package?.unit(id, skeleton) { return .success(found) }
    let directory = skeleton.directory?.string ?? ""
    let base = name.split(separator: "/").last.map(String.init) ?? name
    let here = DebugFiles.directory(of: realPath(program.path))
    var paths = name.hasPrefix("/") ? [name] : [directory.isEmpty ? here + name : directory + "/" + name]
    paths += [here + name, here + base]
    var failure = ElfError(text: "\(paths[0]), which debug information was split off to, is not there")
    for path in paths where access(path, R_OK) == 0 {
      switch open(path) {
      case .success(let file):
        for header in file.allHeaders {
          let unit = file.unit(header, skeleton: skeleton)
          if unit.splitID == id { return .success(unit) }
        }
        failure = ElfError(text: "\(path) is of another build: it has no unit \(String(id, radix: 16))")
      case .failure(let error): failure = error
      }
    }
    return .failure(failure)
  }

  private func open(_ path: String) -> Result<DwarfFile, ElfError> {
    if let known = opened[path] { return known }
    let result: Result<DwarfFile, ElfError>
    do {
      if let file = try DwarfFile(ElfImage(path: path), isSplit: true) {
        result = .success(file)
      } else {
        result = .failure(ElfError(text: "\(path) has no debug information"))
      }
    } catch { result = .failure(error) }
    opened[path] = result
    return result
  }
}

struct SplitPackage {
  let file: DwarfFile
  private let units: PackageIndex

  init?(beside program: ElfImage) {
    let path = program.path + ".dwp"
    guard access(path, R_OK) == 0, let image = try? ElfImage(path: path),
      let file = try? DwarfFile(image, isSplit: true),
      let units = (try? image.content(of: ".debug_cu_index")).flatMap(PackageIndex.init)
    else { return nil }
    self.file = file
    self.units = units
    let types = (try? image.content(of: ".debug_tu_index")).flatMap(PackageIndex.init)
    file.packagedType = { types?.place(of: $0) }
  }

  func unit(_ id: UInt64, _ skeleton: DwarfUnit) -> DwarfUnit? {
    guard let (offset, contribution) = units.place(of: id), let header = file.header(at: offset) else { return nil }
    return file.unit(header, contribution, skeleton: skeleton)
  }
}

/// The offsets of a package's units. Units with code are found by the number of their skeleton, type units by their
/// signatures.
private struct PackageIndex {
  private enum Kind {
    static let info: UInt32 = 1
    static let types: UInt32 = 2
    static let abbreviations: UInt32 = 3
    static let line: UInt32 = 4
    static let textOffsets: UInt32 = 6
    static let rangeLists: UInt32 = 8
  }

  private let content: SectionContent
  private let version: UInt32
  private let columns: [UInt32]
  private let unitCount: Int
  private let slotCount: Int

  init?(_ content: SectionContent) {
    content.requireAll()
    var cursor = content.bytes.cursor()
    // From DWARF 5 on, the version has two bytes, and two zero bytes follow.
    let short = cursor.u16()
    cursor = content.bytes.cursor()
    let long = cursor.u32()
    version = short == 5 ? 5 : long
    let (columnCount, units, slots) = (Int(cursor.u32()), Int(cursor.u32()), Int(cursor.u32()))
    guard version == 2 || version == 5, columnCount <= 16, !cursor.hasFailed else { return nil }
    // Each slot has eight bytes for a number and four for a row.
    cursor = content.bytes.cursor(at: 16 + slots * 12)
    columns = (0..<columnCount).map { _ in cursor.u32() }
    guard !cursor.hasFailed else { return nil }
    self.content = content
    unitCount = units
    slotCount = slots
  }

  func place(of id: UInt64) -> (offset: Int, contribution: Contribution)? {
    guard slotCount > 0, slotCount & (slotCount - 1) == 0 else { return nil }
    // Open addressing by the low bits, with a step from the high bits (DWARF 5, 7.3.5.3).
    let mask = UInt64(slotCount - 1)
    var slot = id & mask
    let step = ((id >> 32) & mask) | 1
    for _ in 0..<slotCount {
      var hash = content.bytes.cursor(at: 16 + Int(slot) * 8)
      let found = hash.u64()
      var row = content.bytes.cursor(at: 16 + slotCount * 8 + Int(slot) * 4)
      let number = Int(row.u32())
      if hash.hasFailed || row.hasFailed || number == 0 { return nil }
      if found == id { return place(inRow: number) }
      slot = (slot + step) & mask
    }
    return nil
  }

  private func place(inRow row: Int) -> (offset: Int, contribution: Contribution)? {
    guard row <= unitCount else { return nil }
    var cursor = content.bytes.cursor(at: 16 + slotCount * 12 + columns.count * 4 * row)
    var offset: Int?
    var contribution = Contribution()
    for column in columns {
      let place = Int(cursor.u32())
      switch column {
      case Kind.info, Kind.types: offset = place
      case Kind.abbreviations: contribution.abbreviations = place
      case Kind.line: contribution.line = place
      case Kind.textOffsets: contribution.textOffsets = place
      case Kind.rangeLists where version == 5: contribution.rangeLists = place
      default: break
      }
    }
    guard !cursor.hasFailed, let offset else { return nil }
    return (offset, contribution)
  }
}
