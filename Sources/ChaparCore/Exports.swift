// Backends take and give JSON in many places: importing ChaparCore brings its types.
@_exported public import ChaparJSON
