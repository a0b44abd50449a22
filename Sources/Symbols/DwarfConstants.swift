/// Numbers from DWARF 5, section 7, and GNU's extensions (https://gcc.gnu.org/wiki/DebugFission).
enum Tag {
  static let compileUnit: UInt16 = 0x11
  static let inlinedSubroutine: UInt16 = 0x1d
  static let module: UInt16 = 0x1e
  static let subprogram: UInt16 = 0x2e
  static let skeletonUnit: UInt16 = 0x4a
  static let arrayType: UInt16 = 0x01
  static let enumerationType: UInt16 = 0x04
  static let subroutineType: UInt16 = 0x15
}

enum Attribute {
  static let sibling: UInt16 = 0x01
  static let name: UInt16 = 0x03
  static let statementList: UInt16 = 0x10
  static let lowPC: UInt16 = 0x11
  static let highPC: UInt16 = 0x12
  static let compilationDirectory: UInt16 = 0x1b
  static let abstractOrigin: UInt16 = 0x31
  static let declarationFile: UInt16 = 0x3a
  static let declarationLine: UInt16 = 0x3b
  static let specification: UInt16 = 0x47
  static let ranges: UInt16 = 0x55
  static let signature: UInt16 = 0x69
  static let callColumn: UInt16 = 0x57
  static let callFile: UInt16 = 0x58
  static let callLine: UInt16 = 0x59
  static let linkageName: UInt16 = 0x6e
  static let stringOffsetsBase: UInt16 = 0x72
  static let addressBase: UInt16 = 0x73
  static let rangeListsBase: UInt16 = 0x74
  static let splitName: UInt16 = 0x76
  static let mipsLinkageName: UInt16 = 0x2007
  static let gnuSplitName: UInt16 = 0x2130
  static let gnuSplitID: UInt16 = 0x2131
  static let gnuRangesBase: UInt16 = 0x2132
  static let gnuAddressBase: UInt16 = 0x2133
  /// DW_AT_LLVM_include_path (llvm/BinaryFormat/Dwarf.def).
  static let llvmIncludePath: UInt16 = 0x3e00
}

enum Form {
  static let address: UInt16 = 0x01
  static let block2: UInt16 = 0x03
  static let block4: UInt16 = 0x04
  static let data2: UInt16 = 0x05
  static let data4: UInt16 = 0x06
  static let data8: UInt16 = 0x07
  static let string: UInt16 = 0x08
  static let block: UInt16 = 0x09
  static let block1: UInt16 = 0x0a
  static let data1: UInt16 = 0x0b
  static let flag: UInt16 = 0x0c
  static let signedData: UInt16 = 0x0d
  static let stringPointer: UInt16 = 0x0e
  static let unsignedData: UInt16 = 0x0f
  static let referenceAddress: UInt16 = 0x10
  static let reference1: UInt16 = 0x11
  static let reference2: UInt16 = 0x12
  static let reference4: UInt16 = 0x13
  static let reference8: UInt16 = 0x14
  static let referenceUnsigned: UInt16 = 0x15
  static let indirect: UInt16 = 0x16
  static let sectionOffset: UInt16 = 0x17
  static let expression: UInt16 = 0x18
  static let flagPresent: UInt16 = 0x19
  static let stringIndex: UInt16 = 0x1a
  static let addressIndex: UInt16 = 0x1b
  static let referenceSupplementary4: UInt16 = 0x1c
  static let stringPointerSupplementary: UInt16 = 0x1d
  static let data16: UInt16 = 0x1e
  static let lineStringPointer: UInt16 = 0x1f
  static let referenceSignature: UInt16 = 0x20
  static let implicitConstant: UInt16 = 0x21
  static let locationListIndex: UInt16 = 0x22
  static let rangeListIndex: UInt16 = 0x23
  static let referenceSupplementary8: UInt16 = 0x24
  static let stringIndex1: UInt16 = 0x25
  static let stringIndex2: UInt16 = 0x26
  static let stringIndex3: UInt16 = 0x27
  static let stringIndex4: UInt16 = 0x28
  static let addressIndex1: UInt16 = 0x29
  static let addressIndex2: UInt16 = 0x2a
  static let addressIndex3: UInt16 = 0x2b
  static let addressIndex4: UInt16 = 0x2c
  static let gnuAddressIndex: UInt16 = 0x1f01
  static let gnuStringIndex: UInt16 = 0x1f02
  static let gnuReferenceAlternate: UInt16 = 0x1f20
  static let gnuStringAlternate: UInt16 = 0x1f21
}
