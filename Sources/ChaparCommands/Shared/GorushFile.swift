import Foundation
import ChaparCore
import ChaparGateway

/// A configuration file of gorush, another push server: its values by their paths.
struct GorushFile {
    /// The path of the file.
    let path: String
    /// The keys of the file in its order, in lower case, such as `ios.key_path`: gorush reads them in any letter case.
    let keys: [String]
    private let values: [String: ConfigNode]

    /// A value with its path.
    private typealias Leaf = (key: String, node: ConfigNode)

    /// The sections by which the file is recognized; Chapar has none of them.
    private static let sections: Set<String> = ["core", "api", "android", "ios", "huawei", "stat", "grpc"]
    /// The sections of which one is enough.
    private static let platforms: Set<String> = ["android", "ios", "huawei"]

    /// Reads the file.
    ///
    /// - Throws: The mistake of a file that is no YAML, or is not gorush's.
    init(_ path: String) throws(ConfigurationError) {
        let root = try ConfigurationLoader.foreignValues(of: path)
        guard Self.isOne(root) else {
            throw ConfigurationError([
                ConfigIssue(
                    path: "",
                    origin: ConfigOrigin(file: path),
                    problem: "is not a configuration of gorush, which has sections such as core, ios and android",
                    fix: "Give the file that gorush is started with (gorush -c FILE)."
                )
            ])
        }
        self.path = path
        var leaves: [Leaf] = []
        Self.collect(root, "", into: &leaves)
        keys = leaves.map(\.key)
        values = Dictionary(leaves.map { ($0.key, $0.node) }) { $1 }
    }

    /// Whether a document is a configuration of gorush: a platform's section or two of its others, and no `backends`,
    /// which Chapar needs.
    static func isOne(_ root: ConfigNode) -> Bool {
        guard case .map(let entries) = root.value else { return false }
        let names = Set(entries.map { $0.key.lowercased() })
        guard !names.contains("backends") else { return false }
        return !names.isDisjoint(with: platforms) || names.intersection(sections).count >= 2
    }

    /// Returns the mistake of a file that was given as a configuration of Chapar and is gorush's; nil for any other.
    static func mistake(in path: String) -> ConfigIssue? {
        // A pipe was read to its end before.
        let target = URL(filePath: path).resolvingSymlinksInPath().path
        let attributes = try? FileManager.default.attributesOfItem(atPath: target)
        guard attributes?[.type] as? FileAttributeType == .typeRegular,
            let root = try? ConfigurationLoader.foreignValues(of: path), isOne(root)
        else { return nil }
        return ConfigIssue(
            path: "",
            origin: ConfigOrigin(file: path),
            problem: "is a configuration of gorush",
            fix: "Convert it: \(GatewayProgram.current.name) init --from \(path) --config chapar.yaml "
                + "(see docs/FromGorush.md)."
        )
    }

    private static func collect(_ node: ConfigNode, _ path: String, into leaves: inout [Leaf]) {
        guard case .map(let entries) = node.value else { return leaves.append((path, node)) }
        for entry in entries {
            let key = entry.key.lowercased()
            collect(entry.node, path.isEmpty ? key : "\(path).\(key)", into: &leaves)
        }
    }

    /// Returns the value of a key; nil when the file lacks it, or has an empty one or a list.
    subscript(key: String) -> String? {
        guard case .scalar(let text)? = values[key]?.value, !text.isEmpty else { return nil }
        return text
    }

    /// Returns whether a switch is on, as Go reads one.
    func isOn(_ key: String, default standard: Bool = false) -> Bool {
        guard let text = self[key] else { return standard }
        return ["1", "t", "true"].contains(text.lowercased())
    }

    /// Returns the place of a key, else that of the file.
    func origin(of key: String) -> ConfigOrigin { values[key]?.origin ?? ConfigOrigin(file: path) }
}
