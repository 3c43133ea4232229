-- kernel-lsp for Neovim 0.11 and later. Copy to `lsp/kernel_lsp.lua` in your configuration, then
-- `vim.lsp.enable("kernel_lsp")`.

local lenses = vim.api.nvim_create_augroup("kernel_lsp", { clear = true })

-- Neovim 0.11 does not ask again when the server has new lenses or hints: new diagnostics and the end of a job tell it.
local function refresh(bufnr)
  if vim.api.nvim_buf_is_loaded(bufnr) and #vim.lsp.get_clients({ bufnr = bufnr, name = "kernel_lsp" }) > 0 then
    vim.lsp.codelens.refresh({ bufnr = bufnr })
  end
end

local function on_this_file(client, command, bufnr)
  client:exec_cmd({ title = command, command = command, arguments = { vim.uri_from_bufnr(bufnr) } }, { bufnr = bufnr })
end

return {
  cmd = { "kernel-lsp", "serve", "--stdio" },
  -- The references are Python: saving one has the kernels that lean on it checked again.
  filetypes = { "cpp", "cuda", "python" },
  root_markers = { "kernel-lsp.toml", "pyproject.toml", ".git" },
  -- Settings go here, for example `settings = { kernelLsp = { onSave = "verify" } }`.
  -- For folders whose kernels must not be run: `init_options = { trusted = false }`.
  on_attach = function(client, bufnr)
    if vim.bo[bufnr].filetype == "python" then
      return
    end
    vim.lsp.inlay_hint.enable(true, { bufnr = bufnr })
    vim.api.nvim_create_autocmd({ "DiagnosticChanged", "BufEnter" }, {
      group = lenses,
      buffer = bufnr,
      callback = function()
        refresh(bufnr)
      end,
    })
    vim.api.nvim_create_autocmd("LspProgress", {
      group = lenses,
      pattern = "end",
      callback = function(event)
        if event.data.client_id == client.id then
          refresh(bufnr)
        end
      end,
    })
    local function command(name, run)
      vim.api.nvim_buf_create_user_command(bufnr, name, run, {})
    end
    command("KernelCheck", function()
      on_this_file(client, "kernel-lsp.check", bufnr)
    end)
    command("KernelOptimize", function()
      on_this_file(client, "kernel-lsp.optimize", bufnr)
    end)
    command("KernelReport", function()
      on_this_file(client, "kernel-lsp.report", bufnr)
    end)
    command("KernelDoctor", function()
      client:exec_cmd({ title = "doctor", command = "kernel-lsp.doctor" }, { bufnr = bufnr })
    end)
    refresh(bufnr)
  end,
}
