target_sources(ductl_weights PRIVATE
  budget.cpp
  checkpoint.cpp
  config_reader.cpp
  context_length.cpp
  expert_names.cpp
  hub.cpp
  json_text.cpp
  model_config.cpp
  random_checkpoint.cpp
  safetensors.cpp
  tensor.cpp
  )
