/// The version that this program tells.
enum Version {
    static let text = "0.1.0"
}
