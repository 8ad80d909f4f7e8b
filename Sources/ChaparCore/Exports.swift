// What a backend takes and gives is JSON in many places: who imports ChaparCore has its types.
@_exported public import ChaparJSON
