import CulpritStallRecord

func decimal(share: Double) -> String { decimal(UInt64((min(1, max(0, share)) * 1000).rounded()), 3) }
